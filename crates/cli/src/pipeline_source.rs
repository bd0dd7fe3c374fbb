//! Pipelines: files, those that are built in, and their inputs.

use std::fs;
use std::path::{Path, PathBuf};

use capataz_contracts::pipeline_file::{self, Format};
use capataz_contracts::validate::INLINE_MAX;
use capataz_contracts::{InPart, Violation, v1};
use capataz_display::words::{fill, words};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::Output;
use crate::plan_source::{Looked, format_of, name_of, read};
use crate::sources::{LeftOut, Source};

/// The folder in which pipelines are looked for by their names.
const FOLDER: &str = "pipelines";

/// A pipeline that is part of the program, with the schemas that it names.
struct BuiltIn {
    name: &'static str,
    text: &'static str,
    schemas: &'static [(&'static str, &'static str)],
}

const BUILT_IN: &[BuiltIn] = &[BuiltIn {
    name: "product-analysis",
    text: include_str!("../../../pipelines/product-analysis.toml"),
    schemas: &[
        ("../schemas/source-context.json", include_str!("../../../schemas/source-context.json")),
        ("../schemas/product-context.json", include_str!("../../../schemas/product-context.json")),
        ("../schemas/feature-map.json", include_str!("../../../schemas/feature-map.json")),
        (
            "../schemas/timeline-interpretation.json",
            include_str!("../../../schemas/timeline-interpretation.json"),
        ),
    ],
}];

/// The key of the input whose values are folders, and the one that their sources are under.
const FOLDERS: &str = "path";
const SOURCES: &str = "sources";

/// A pipeline that can be run by its name.
pub struct Known {
    pub name: String,
    /// `None` where it is built in.
    pub file: Option<PathBuf>,
    pub pipeline: Result<v1::Pipeline, Vec<Violation>>,
}

/// Every pipeline that can be run by its name, in the order of the names.
pub fn known() -> Vec<Known> {
    let mut known: Vec<Known> = Vec::new();
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let file = entry.path();
        let is_pipeline = file.extension().is_some_and(|extension| extension == "toml");
        let Some(name) = file.file_stem().filter(|_| is_pipeline).and_then(|name| name.to_str()) else {
            continue;
        };
        let pipeline = fs::read(&file)
            .map_err(|error| vec![Violation::new(String::new(), "file", error.to_string())])
            .and_then(|bytes| parse(&bytes, Format::Toml, file.parent()))
            .and_then(InPart::whole);
        known.push(Known { name: name.to_owned(), file: Some(file), pipeline });
    }
    for built_in in BUILT_IN {
        if known.iter().all(|known| known.name != built_in.name) {
            let pipeline = parse_built_in(built_in).and_then(InPart::whole);
            known.push(Known { name: built_in.name.to_owned(), file: None, pipeline });
        }
    }
    known.sort_by(|one, other| one.name.cmp(&other.name));
    known
}

/// Reads and checks a pipeline: a file, or a name.
///
/// # Errors
/// There is no such pipeline, it cannot be read, or it breaks rules, all of which are listed.
pub fn load(given: &Path, format: Option<Format>) -> Result<v1::Pipeline, Failure> {
    look(given, format)?.checked()
}

/// Reads a pipeline: a file, or a name.
///
/// # Errors
/// There is no such pipeline, or it cannot be read. What is wrong with it stands in the answer.
pub fn look(given: &Path, format: Option<Format>) -> Result<Looked<v1::Pipeline>, Failure> {
    let by_name = given.to_str().filter(|name| !name.contains(['/', '\\', '.']) && *name != "-");
    let file = match by_name {
        Some(name) if !given.is_file() => {
            let file = Path::new(FOLDER).join(format!("{name}.toml"));
            if !file.is_file() {
                let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name);
                let built_in = built_in.ok_or_else(|| {
                    let file = file.display().to_string();
                    Failure::invalid(fill(words().pipelines.not_found, &[name, &file]))
                })?;
                return looked(name.to_owned(), parse_built_in(built_in));
            }
            file
        }
        _ => given.to_owned(),
    };
    let bytes = read(&file).map_err(|error| {
        let message = fill(words().contract.cannot_read, &[&name_of(&file), &error.to_string()]);
        Failure::invalid(message)
    })?;
    let format = format.unwrap_or_else(|| format_of(&file, &bytes));
    looked(name_of(&file), parse(&bytes, format, file.parent()))
}

fn looked(
    subject: String,
    parsed: Result<InPart<v1::Pipeline>, Vec<Violation>>,
) -> Result<Looked<v1::Pipeline>, Failure> {
    match parsed {
        Ok(pipeline) => Ok(Looked::of(subject, pipeline)),
        Err(violations) => Err(Failure::Violations { subject, violations }),
    }
}

/// The pipeline with all that is wrong with it by itself.
fn judged(mut pipeline: InPart<v1::Pipeline>) -> InPart<v1::Pipeline> {
    pipeline.add(capataz_daemon::check_pipeline(&pipeline.document));
    pipeline
}

/// Parses a pipeline, whose schemas are in files of this folder, and tells all that is wrong with it.
pub fn parse(
    bytes: &[u8],
    format: Format,
    folder: Option<&Path>,
) -> Result<InPart<v1::Pipeline>, Vec<Violation>> {
    let parsed = pipeline_file::parse_in_part(bytes, format, &mut |schema| {
        let file = folder.unwrap_or(Path::new("")).join(schema);
        // A pipe or a device may never end, and `-` is no file.
        if !file.is_file() {
            return Err(words().pipelines.no_file.to_owned());
        }
        read(&file).map_err(|error| error.to_string())
    });
    parsed.map(judged)
}

fn parse_built_in(built_in: &BuiltIn) -> Result<InPart<v1::Pipeline>, Vec<Violation>> {
    let parsed = pipeline_file::parse_in_part(built_in.text.as_bytes(), Format::Toml, &mut |schema| {
        let found = built_in.schemas.iter().find(|(name, _)| *name == schema);
        found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "it is not built in".to_owned())
    });
    parsed.map(judged)
}

/// The input of a run, out of what the command line gives; `None` where it gives nothing.
///
/// # Errors
/// What is given is no part of an input.
pub fn input(given: &[String], file: Option<&Path>, out: &mut Output) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(file) = file {
        let bytes = read(file).map_err(|error| {
            Failure::invalid(fill(words().contract.cannot_read, &[&name_of(file), &error.to_string()]))
        })?;
        return Ok(Some(bytes));
    }
    if given.is_empty() {
        return Ok(None);
    }
    let mut input = Map::new();
    let mut sources = Vec::new();
    for part in given {
        let (key, value) = part_of(part)?;
        if key == FOLDERS
            && let Some(folder) = value.as_str()
        {
            let source = source_of(Path::new(folder))?;
            let LeftOut { names, beyond } = source.left_out;
            if names + beyond > 0 {
                out.note(&fill(words().pipelines.left_out, &[folder, &(names + beyond).to_string()]));
            }
            sources.push(source.input());
            continue;
        }
        if input.insert(key.clone(), value).is_some() {
            return Err(Failure::invalid(fill(words().pipelines.twice, &[&key])));
        }
    }
    if !sources.is_empty() && input.insert(SOURCES.to_owned(), Value::Array(sources)).is_some() {
        return Err(Failure::invalid(fill(words().pipelines.twice, &[SOURCES])));
    }
    Ok(Some(Value::Object(input).to_string().into_bytes()))
}

/// A folder as a source.
fn source_of(folder: &Path) -> Result<Source, Failure> {
    Source::of(folder).map_err(|error| {
        Failure::invalid(fill(words().contract.cannot_read, &[&name_of(folder), &error.to_string()]))
    })
}

fn part_of(part: &str) -> Result<(String, Value), Failure> {
    let texts = &words().pipelines;
    let (key, text) = part.split_once('=').ok_or_else(|| Failure::invalid(fill(texts.no_input, &[part])))?;
    match key.strip_suffix(':') {
        Some(key) => {
            let value = serde_json::from_str(text)
                .map_err(|error| Failure::invalid(fill(texts.no_json, &[key, &error.to_string()])))?;
            Ok((key.to_owned(), value))
        }
        None => Ok((key.to_owned(), Value::String(text.to_owned()))),
    }
}

/// Whether contents of this size go into a request, and not into a blob.
pub fn is_inline(contents: &[u8]) -> bool {
    contents.len() <= INLINE_MAX
}
