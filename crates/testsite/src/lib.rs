//! A web site in the process of a test: two hosts on loopback addresses, plain pages that are the same each time, and a
//! record of whatever came. Begin with [`Site::start`].
//!
//! It knows no browser and none of our crates. It is for tests and benchmarks; nothing that is shipped depends on it.
//! Nothing in it depends on chance or on the time; where a page is late, it waits for `/delayed?ms=300`.
//!
//! # The pages
//! Both hosts answer all of them. Elements to act on have the test id `target` unless the table says otherwise; a click
//! that reaches it shows `saved` in the element with the test id `status` and is counted as `/hit/target`. What must not
//! be reached is counted by another name, such as `/hit/overlay`.
//!
//! | path | what it does |
//! |---|---|
//! | `/` | links to all pages that are not made |
//! | `/plain` | one paragraph |
//! | `/locale` | says in `said` which language, formats and time zone its browser has, and the hour of a noon in UTC |
//! | `/text` | white space, composed and decomposed letters, entities, emoji, a link, an image, a list |
//! | `/tables` | `orders` with caption, head, foot and `colspan`; `spans` with `rowspan`; `empty` |
//! | `/image.svg` | a red square |
//! | `/form` | every kind of field; posts to `/form/sent`, which shows what it got; a required field |
//! | `/form/get` | sends its field as a query to `/echo` |
//! | `/form/by-script` | posts by `fetch` to `/form/sent` and says `sent` |
//! | `/echo` | shows method, query and body |
//! | `/echo/headers` | shows the headers of the request |
//! | `/sign-in` | [`USER`] and [`PASSWORD`] lead to `/account`, anything else shows `Wrong user or password.` |
//! | `/sign-in/401` | the same, with status 401 |
//! | `/sign-in/redirect` | the same, with a redirect to `/login?failed=1` |
//! | `/sign-in/by-script` | the same by `fetch`, which gets a 401 |
//! | `/login` | says that the session has ended |
//! | `/account` | `Welcome, ana.` for who is signed in, else a redirect to `/login` |
//! | `/api/account` | `ana`, or status 401 |
//! | `/session-lost` | fetches `/api/account`, and says `Session expired` |
//! | `/session-lost/silent` | a click fetches `/api/account`, and says nothing where that is refused |
//! | `/session-lost/pushed` | a click goes to `/login?from=here` by `pushState`, and loads nothing |
//! | `/upload` | inputs `one` and `several`; lists names and sizes in `files`; posts to `/upload/received`, which shows names |
//! | `/upload/silent` | takes a file in `one` and says nothing |
//! | `/upload/late` | says `NAME uploaded` 300 ms after the file was chosen |
//! | `/upload/hidden` | `one` is not displayed; the button `choose` opens the chooser |
//! | `/upload/refuses` | empties `one` as soon as a file was chosen, and says `only PDF` |
//! | `/downloads` | links to all downloads, one that is missing, one that is a page, one that is made by a script |
//! | `/download/ok` | `report.csv`, three lines |
//! | `/download/slow` | one KiB, and another one after [`Site::release`] |
//! | `/download/aborted` | promises one MiB and breaks off after 64 KiB |
//! | `/download/endless` | never ends, and says no length |
//! | `/download/large` | 200 MiB, and says so |
//! | `/download/hostile` | a name with `..`, slashes, blanks and a backslash |
//! | `/overlay/banner` | a banner over everything; `close` removes it; a click on it is `/hit/overlay` |
//! | `/overlay/late-banner` | the same banner, 300 ms after the page |
//! | `/overlay/at-pointerdown` | the overlay comes when the pointer is pressed, and gets the release; nobody gets a click |
//! | `/overlay/at-pointermove` | the overlay comes when the pointer arrives |
//! | `/overlay/transparent` | an overlay that cannot be seen |
//! | `/overlay/shadow` | an overlay in an open shadow root |
//! | `/overlay/passes-through` | an overlay without pointer events, which covers nothing |
//! | `/overlay/iframe` | an iframe over everything, whose button is `/hit/overlay` |
//! | `/overlay/cross-iframe` | the same iframe, from the other host |
//! | `/overlay/inner` | the page within both |
//! | `/overlay/partial` | covers the middle of the button, and leaves its edges |
//! | `/button/plain` | a button |
//! | `/button/moving` | never rests |
//! | `/button/moving-stops` | rests after 20 frames |
//! | `/button/replaced-on-hover` | becomes `replacement`, `/hit/replacement`, under the pointer |
//! | `/button/replaced-on-mousedown` | the same, when the mouse is pressed |
//! | `/button/shifts` | under the pointer, `wrong` takes the place of `target` |
//! | `/button/detaches` | goes away under the pointer |
//! | `/button/rerendered` | `again` makes the button anew; it says which one was clicked |
//! | `/button/late` | comes after 300 ms |
//! | `/button/late-enabled` | is enabled after 300 ms |
//! | `/button/late-saved` | says `saved` 300 ms after the click |
//! | `/button/no-effect` | counts, and shows nothing |
//! | `/button/duplicates` | three with the test id `delete`: `/hit/a`, `/hit/b`, `/hit/c` |
//! | `/button/states` | disabled, hidden and inert ones, each by a test id of its own |
//! | `/button/far` | far down in a scrolled box; `bottom` is far down in the page |
//! | `/button/double` | says `opened` on a double click |
//! | `/hover` | a link `Prices` that is displayed while the pointer is over `opener` |
//! | `/keyboard` | lists keys in `keys`; Enter says `searched for …` |
//! | `/hydration` | clicks are lost until `body[data-hydrated]`, after 300 ms |
//! | `/hydration/input` | what was typed into `name` is lost at that moment |
//! | `/state` | `add` and `reset` change `count`; `nothing` changes nothing |
//! | `/animation` | a wheel that turns for ever beside the button |
//! | `/busy` | the click never returns |
//! | `/frames/same` | `/frames/middle` in an iframe, with `/frames/leaf` within; both have a `target`: `/hit/middle`, `/hit/leaf` |
//! | `/frames/middle` | see above |
//! | `/frames/leaf` | see above; an input `note` |
//! | `/frames/cross` | the same, with the middle one from the other host and the leaf from the first |
//! | `/frames/cross-middle` | see above |
//! | `/frames/scrolled` | an iframe with border and padding, far down, with `/frames/far` |
//! | `/frames/far` | a `target`, `/hit/far`, far down |
//! | `/frames/late` | an iframe with the leaf, after 300 ms |
//! | `/frames/sandboxed` | an iframe without scripts |
//! | `/frames/srcdoc` | an iframe with its own text |
//! | `/shadow/open` | `outer` in an open shadow root, `target` and `note` in one within it |
//! | `/shadow/closed` | the button is in a closed one |
//! | `/shadow/slotted` | the button is in a slot |
//! | `/dialog/alert-on-load` | an alert before the page is loaded |
//! | `/dialog/fifty` | fifty alerts in a row |
//! | `/dialog/confirm` | says `deleted` or `kept` |
//! | `/dialog/prompt` | says `hello, …` or `no name` |
//! | `/dialog/beforeunload` | asks before it is left, once something was typed into `text` |
//! | `/dialog/in-frame` | the confirm page in an iframe |
//! | `/tabs` | `blank`, `blank-opener`, `open`, `popup`, `closes`, `written`, `alerting`: new tabs of each kind |
//! | `/tabs/new` | says in `opener` whether it knows one; `close` closes it |
//! | `/tabs/closes` | closes itself |
//! | `/tabs/on-load` | opens a tab without having been asked |
//! | `/navigate` | links to the following, `push`, `replace`, `script` and `late` by script |
//! | `/navigate/never` | no answer, ever |
//! | `/navigate/endless` | an answer without an end |
//! | `/navigate/reset` | the connection ends without an answer |
//! | `/navigate/loop` | redirects to itself |
//! | `/navigate/chain` | redirects to `/navigate/chain/2`, `/navigate/chain/3`, `/navigate/arrived` |
//! | `/navigate/chain/2` | see above |
//! | `/navigate/chain/3` | see above |
//! | `/navigate/arrived` | see above |
//! | `/navigate/other` | redirects to `/plain` of the other host |
//! | `/navigate/to-data` | redirects to a `data:` URL |
//! | `/navigate/meta-refresh` | refreshes to `/navigate/arrived` |
//! | `/navigate/slow-image` | the text comes, the load event never |
//! | `/navigate/to-file` | links to `file:`, `chrome:` and `mailto:` |
//! | `/status/404` | any status from 200 to 999, by its number; 204 has no body |
//! | `/secrets` | holds all of [`SECRETS`] but those of the addresses, sets a cookie, fetches with a secret header |
//! | `/secrets/landing` | shows its own address; `/secrets` has a link there with tokens |
//! | `/secrets/redirect` | redirects there with a token in the query |
//! | `/secrets/echo` | shows the password while it is typed |
//! | `/big` | about an administration's page: [`BIG_PAGE_ELEMENTS`] elements, 42 rows, 18 fields |
//! | `/big/bytes` | 200 MiB of text |
//! | `/big/elements` | 100,000 paragraphs |
//! | `/probe/image` | each of [`PROBES`] tries to reach the other host, one way each |
//! | `/probe/worker.js` | the worker of some of them |
//! | `/reached/image` | what each asks for |
//! | `/redirect` | redirects to the parameter `to` |
//! | `/delayed` | answers after as many milliseconds as the parameter `ms` says |
//! | `/hit/target` | counts; `POST`, and nothing in return |

mod answer;
mod big;
mod pages;
mod probes;
mod record;
mod routes;
mod secret_scripts;
mod secrets;
pub mod seed_002;
mod server;
mod traces;

use std::io;
use std::sync::Arc;

use tokio::task::JoinSet;

pub use crate::big::ELEMENTS as BIG_PAGE_ELEMENTS;
pub use crate::probes::{PROBES, Probe};
pub use crate::record::{Host, Request};
pub use crate::secret_scripts::{FAILING_WITH_SECRETS, FailingScript, secrets_alone, secrets_and_success};
pub use crate::secrets::{PlantedSecret, SECRETS};
pub use crate::traces::{TYPED_SECRET, Trace, found_in, traces};

use crate::answer::Addresses;
use crate::record::Record;
use crate::server::Sockets;

/// The user who can sign in.
pub const USER: &str = "ana";

/// The password of [`USER`]. It is not a planted secret: the test itself types it.
pub const PASSWORD: &str = "correct horse";

/// The running site. It ends when it is dropped, with all of its connections.
#[derive(Debug)]
pub struct Site {
    addresses: Addresses,
    record: Record,
    _tasks: JoinSet<()>,
}

impl Site {
    /// Begins to serve, within the runtime of the caller.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> io::Result<Self> {
        let first = Sockets::bind().await?;
        let other = Sockets::bind().await?;
        let addresses = Addresses { first: first.port, other: other.port };
        let record = Record::new();
        let mut tasks = JoinSet::new();
        first.serve(Host::First, addresses, &record, &mut tasks);
        other.serve(Host::Other, addresses, &record, &mut tasks);
        Ok(Self { addresses, record, _tasks: tasks })
    }

    /// The address of a path of the first host: `http://127.0.0.1:PORT/plain`.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.addresses.first())
    }

    /// The address of a path of the other host: `http://localhost:OTHER/plain`.
    pub fn other_url(&self, path: &str) -> String {
        format!("{}{path}", self.addresses.other())
    }

    /// The first host, as allowlists name it: `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.addresses.first)
    }

    /// The other host, as allowlists name it: `localhost:OTHER`.
    pub fn other_host(&self) -> String {
        format!("localhost:{}", self.addresses.other)
    }

    /// How often this path of the first host was asked for, whatever the query.
    pub fn hits(&self, path: &str) -> usize {
        self.record.read(|seen| seen.hits(Host::First, path))
    }

    /// How often this path of the other host was asked for.
    pub fn hits_of_other(&self, path: &str) -> usize {
        self.record.read(|seen| seen.hits(Host::Other, path))
    }

    /// The number of everything that came to the other host: requests, connections, with a request or without, and
    /// datagrams. It is zero if nobody came near it.
    pub fn other_hits(&self) -> usize {
        self.record.read(|seen| seen.signs(Host::Other))
    }

    /// Those of [`Site::other_hits`] that are datagrams.
    pub fn other_datagrams(&self) -> usize {
        self.record.read(|seen| seen.datagrams.get(&Host::Other).copied().unwrap_or_default())
    }

    /// Connections to this host so far.
    pub fn connections(&self, host: Host) -> usize {
        self.record.read(|seen| seen.connections.get(&host).copied().unwrap_or_default())
    }

    /// The requests to both hosts in the order in which they came; the first 10,000 of them.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.record.read(|seen| seen.requests.clone())
    }

    /// Waits until this path of the first host was asked for so many times in all.
    pub async fn until_hits(&self, path: &str, times: usize) {
        self.record.until(|seen| seen.hits(Host::First, path) >= times).await;
    }

    /// Waits until [`Site::other_hits`] is so many.
    pub async fn until_other_hits(&self, times: usize) {
        self.record.until(|seen| seen.signs(Host::Other) >= times).await;
    }

    /// Lets `/download/slow` go on, for present and later requests.
    pub fn release(&self) {
        self.record.release();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn documented() -> BTreeSet<&'static str> {
        let rows = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        rows.filter_map(|row| Some(row.split_once('`')?.0)).collect()
    }

    #[test]
    fn every_page_is_in_the_table_once() {
        let mut paths = BTreeSet::new();
        for page in pages::all() {
            assert!(paths.insert(page.path), "{} is there twice", page.path);
        }
        let missing: Vec<_> = paths.difference(&documented()).copied().collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn probes_and_secrets_have_names_of_their_own() {
        let probes: BTreeSet<&str> = PROBES.iter().map(|probe| probe.name).collect();
        assert_eq!(probes.len(), PROBES.len());
        let secrets: BTreeSet<&str> = SECRETS.iter().map(|secret| secret.name).collect();
        assert_eq!(secrets.len(), SECRETS.len());
    }

    #[test]
    fn no_placeholder_is_left_in_a_page() {
        let addresses = Addresses { first: 1, other: 2 };
        for page in pages::all() {
            let filled = addresses.fill(page.body);
            assert!(!filled.contains("{{"), "{}: {filled}", page.path);
        }
        for probe in PROBES {
            let filled = addresses.fill(probe.body);
            assert!(!filled.contains("{{"), "{}: {filled}", probe.name);
        }
    }
}
