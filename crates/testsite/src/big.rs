//! Pages that are made: one like an administration's, for measurements, and two that are far too large.

use std::fmt::Write;
use std::io;

use bytes::Bytes;
use futures_util::stream::{self, Stream};

/// Elements of the page, from `html` on.
pub const ELEMENTS: usize = 579;

const SECTIONS: [&str; 12] = [
    "Overview",
    "Orders",
    "Customers",
    "Products",
    "Invoices",
    "Shipments",
    "Returns",
    "Reports",
    "Users",
    "Roles",
    "Audit",
    "Settings",
];

const CUSTOMERS: [&str; 8] = ["Ana", "Berta", "Carla", "Dora", "Elena", "Flora", "Greta", "Hilda"];

const STATES: [&str; 4] = ["open", "packed", "shipped", "returned"];

/// A navigation, a filter, a table of orders with links, boxes and buttons, and a form, within `answer::document`.
pub(crate) fn body() -> String {
    let mut page = String::with_capacity(64 * 1024);
    navigation(&mut page);
    filter(&mut page);
    orders(&mut page);
    form(&mut page);
    page.push_str("<footer><p>42 orders</p></footer>\n");
    page
}

fn navigation(page: &mut String) {
    page.push_str("<nav aria-label=\"Main\"><ul>\n");
    for section in SECTIONS {
        let path = section.to_lowercase();
        let _ = writeln!(page, "<li><a href=\"/big/{path}\" data-testid=\"nav-{path}\">{section}</a></li>");
    }
    page.push_str("</ul></nav>\n");
}

fn filter(page: &mut String) {
    page.push_str("<form role=\"search\" action=\"/echo\"><label for=\"q\">Find order</label> <input id=\"q\" name=\"q\">\n");
    page.push_str("<label>State <select name=\"state\">");
    for state in STATES {
        let _ = write!(page, "<option>{state}</option>");
    }
    page.push_str("</select></label> <button data-testid=\"find\">Find</button></form>\n");
}

fn orders(page: &mut String) {
    page.push_str("<table data-testid=\"orders\"><caption>Orders</caption>\n<thead><tr>");
    for head in ["", "Number", "Customer", "State", "Total", "Actions"] {
        let _ = write!(page, "<th>{head}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (row, (customer, state)) in
        CUSTOMERS.iter().cycle().zip(STATES.iter().cycle()).take(ORDERS).enumerate()
    {
        let number = 1001 + row;
        let _ = writeln!(
            page,
            "<tr data-testid=\"order-{number}\"><td><input type=\"checkbox\" aria-label=\"Select order {number}\"></td>\
             <td><a href=\"/big/orders/{number}\">{number}</a></td><td>{customer}</td><td>{state}</td>\
             <td>{}.{:02}</td><td><button data-testid=\"edit-{number}\" aria-label=\"Edit order {number}\">Edit</button>\
             <button aria-label=\"Delete order {number}\">Delete</button></td></tr>",
            17 + row * 13 % 400,
            row * 37 % 100,
        );
    }
    page.push_str("</tbody></table>\n");
}

/// Rows of the table.
const ORDERS: usize = 42;

/// Fields of the form.
const FIELDS: usize = 18;

fn form(page: &mut String) {
    page.push_str("<form method=\"post\" action=\"/form/sent\"><h2>New order</h2>\n");
    for field in 1..=FIELDS {
        let _ = writeln!(
            page,
            "<p><label for=\"field-{field}\">Field {field}</label> <input id=\"field-{field}\" name=\"field-{field}\" data-testid=\"field-{field}\"></p>"
        );
    }
    page.push_str("<button data-testid=\"create\">Create order</button></form>\n");
}

/// A document of so many paragraphs, in blocks.
pub(crate) fn paragraphs(count: usize) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    const IN_A_BLOCK: usize = 1000;
    let head = "<!doctype html><title>Many elements</title><link rel=\"icon\" href=\"data:,\"><body>\n";
    let first = stream::iter([Ok(Bytes::from_static(head.as_bytes()))]);
    let blocks = stream::iter((0..count.div_ceil(IN_A_BLOCK)).map(move |block| {
        let numbers = block * IN_A_BLOCK..count.min((block + 1) * IN_A_BLOCK);
        let mut text = String::new();
        for number in numbers {
            let _ = writeln!(text, "<p id=\"p{number}\">{number}</p>");
        }
        Ok(Bytes::from(text))
    }));
    futures_util::StreamExt::chain(first, blocks)
}
