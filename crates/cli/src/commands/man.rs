//! `capataz man`: the pages of the manual, made of the same texts as `--help`. Like completions, they are in English.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use super::Outcome;
use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use capataz_display::words::{fill, words};

pub fn man(folder: Option<&Path>, out: &mut Output) -> Outcome {
    let mut command = Cli::command();
    // What clap adds by itself, `help` and the usage of inner commands, is there after this.
    command.build();
    let Some(folder) = folder else {
        let page = page(&command, command.get_name()).map_err(|error| Failure::failed(error.to_string()))?;
        out.raw(&page);
        return Ok(Exit::Ok);
    };
    let failed = |path: &Path, error: &io::Error| {
        Failure::failed(fill(words().act.cannot_write, &[&path.display().to_string(), &error.to_string()]))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let mut files = Vec::new();
    for (name, command) in pages(&command, command.get_name()) {
        let path = folder.join(format!("{name}.1"));
        let written = page(command, &name).and_then(|page| fs::write(&path, page));
        written.map_err(|error| failed(&path, &error))?;
        files.push(path.display().to_string());
    }
    if out.json {
        out.document(&json!({ "folder": folder.display().to_string(), "files": files }));
    } else {
        files.iter().for_each(|file| out.line(file));
    }
    Ok(Exit::Ok)
}

/// Every command with the name of its page: `capataz-runs-list`.
fn pages<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
    let mut pages = vec![(name.to_owned(), command)];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages.extend(self::pages(sub, &format!("{name}-{}", sub.get_name())));
    }
    pages
}

fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let version = format!("capataz {}", env!("CARGO_PKG_VERSION"));
    let man =
        Man::new(command.clone().display_name(name.to_owned())).title(name).source(version).manual("Capataz");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        let mut examples = Vec::new();
        man.render_extra_section(&mut examples)?;
        // What stands behind the options of every command are its examples.
        page.extend(String::from_utf8_lossy(&examples).replacen(".SH EXTRA", ".SH EXAMPLES", 1).bytes());
    }
    Ok(page)
}
