//! `capataz router …`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use capataz_contracts::{json, v1};
use capataz_router::eval::{self, Evaluation, Row, RowError};
use capataz_router::lint::{self, Severity};
use capataz_router::model::Parameters;
use capataz_router::{Catalogue, Router};
use serde_json::{Value, json};

use super::evaluation::report;
use super::{Daemon, Outcome};
use crate::args::{EvalArgs, Global, LintArgs, RouterCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::near;
use crate::output::Output;
use crate::problem::Problem;
use capataz_display::answer as display;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::table::Table;
use capataz_display::words::messages::refusal;
use capataz_display::words::{counted, fill, words};

pub async fn router(command: RouterCommand, global: &Global, out: &mut Output) -> Outcome {
    let daemon = match &command {
        RouterCommand::Eval(args) => return eval(args, out),
        RouterCommand::Lint(args) => return lint(args, out),
        _ => Daemon::connect(global).await?,
    };
    match command {
        RouterCommand::Explain { text, session, language } => {
            let preferences =
                language.into_iter().map(|language| ("language".to_owned(), language)).collect();
            let request = v1::ExplainRequest { text, session, preferences, ..Default::default() };
            let explained = daemon.client.explain(request).await.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json::print("capataz.v1.ExplainResponse", &explained));
            } else {
                out.line(&display::explanation(&explained, out.paint));
            }
        }
        RouterCommand::Specs => specs(&daemon, out).await?,
        RouterCommand::Reload => {
            let count = daemon.client.reload_specs().await.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json!({ "specs": count }));
            } else {
                out.line(&fill(words().router.reloaded, &[&specs_counted(count as usize)]));
            }
        }
        RouterCommand::Accept { session, request_id } => {
            let accepted = daemon.client.accept_transition(&session, &request_id).await;
            let accepted = accepted.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json::print("capataz.v1.AcceptTransitionResponse", &accepted));
            } else {
                out.line(&fill(words().router.moved, &[&session, &accepted.from, &accepted.to]));
            }
        }
        RouterCommand::Eval(_) | RouterCommand::Lint(_) => {}
    }
    Ok(Exit::Ok)
}

fn specs_counted(count: usize) -> String {
    counted(count as u64, words().router.specs_one, words().router.specs_many)
}

async fn specs(daemon: &Daemon, out: &mut Output) -> Result<(), Failure> {
    let specs = daemon.client.list_specs().await.map_err(|error| daemon.failure(error))?;
    if out.json {
        let mut document = json::print(
            "capataz.v1.ListSpecsResponse",
            &v1::ListSpecsResponse { specs, next_page_token: String::new() },
        );
        if let Some(object) = document.as_object_mut() {
            object.entry("specs").or_insert_with(|| Value::Array(Vec::new()));
        }
        out.document(&document);
        return Ok(());
    }
    let texts = &words().router;
    let mut table = Table::new(texts.specs_head);
    for spec in specs {
        let default = if spec.is_default { texts.yes } else { "" };
        table.row([
            (spec.id, Tone::Strong),
            (spec.title, Tone::Plain),
            (spec.languages.join(", "), Tone::Plain),
            (spec.intents.len().to_string(), Tone::Plain),
            (spec.keywords.len().to_string(), Tone::Plain),
            (spec.agent, Tone::Plain),
            (default.to_owned(), Tone::Good),
        ]);
    }
    let text = if table.is_empty() { texts.no_specs.to_owned() } else { table.render(out.paint) };
    out.line(&text);
    Ok(())
}

/// Maximum number of lines that are told where they cannot be read as rows.
const MOST_ROW_ERRORS: usize = 20;
/// Maximum number of labels that are named where they are no specs.
const MOST_UNKNOWN_LABELS: usize = 10;

/// `router eval`, which trains and measures within this process.
pub fn eval(args: &EvalArgs, out: &mut Output) -> Outcome {
    #[expect(clippy::disallowed_methods, reason = "what is measured here is time")]
    let begun = Instant::now();
    let clock = move || begun.elapsed();
    let evaluation = match &args.specs {
        Some(folder) => of_specs(folder, args, &clock)?,
        None => of_rows(args, &clock, out)?,
    };
    if out.json {
        let document =
            serde_json::to_value(&evaluation).map_err(|error| Failure::failed(error.to_string()))?;
        out.document(&document);
    } else {
        out.line(&report(&evaluation));
    }
    Ok(Exit::Ok)
}

fn of_specs(folder: &Path, args: &EvalArgs, clock: &dyn Fn() -> Duration) -> Result<Evaluation, Failure> {
    let catalogue = catalogue(folder)?;
    let begun = clock();
    let router = Router::train(&catalogue);
    let training = clock().saturating_sub(begun);
    let given = |file: &Option<std::path::PathBuf>, split: &str| match file {
        Some(file) => {
            let rows = rows(file, split)?;
            refuse_unknown_labels(file, &rows, folder, &catalogue)?;
            Ok(Some(rows))
        }
        None => Ok(None),
    };
    let (valid, test) = match (given(&args.valid, "valid")?, given(&args.test, "test")?) {
        (Some(valid), Some(test)) => (valid, test),
        (Some(rows), None) | (None, Some(rows)) => eval::halves(&rows),
        (None, None) => return Err(Failure::invalid(words().measures.needs_rows)),
    };
    Ok(eval::evaluate_router(&router, &valid, &test, training, clock))
}

/// A label that is no spec's id would count as a wrong decision in each of its rows.
fn refuse_unknown_labels(
    file: &Path,
    rows: &[Row],
    folder: &Path,
    catalogue: &Catalogue,
) -> Result<(), Failure> {
    let known = || catalogue.specs().iter().map(|spec| spec.id.as_str());
    let labels: BTreeSet<&str> = rows.iter().map(|row| row.label.as_str()).collect();
    let unknown: Vec<&str> = labels
        .into_iter()
        .filter(|label| *label != eval::OUT_OF_SCOPE && catalogue.find(label).is_none())
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let texts = &words().measures;
    let told =
        unknown.iter().take(MOST_UNKNOWN_LABELS).map(|label| match near::names(label, known()).first() {
            Some(near) => fill(texts.unknown_label_near, &[label, near]),
            None => (*label).to_owned(),
        });
    let mut told = told.collect::<Vec<_>>().join(", ");
    if unknown.len() > MOST_UNKNOWN_LABELS {
        told.push_str(", …");
    }
    let (file, folder) = (file.display().to_string(), folder.display().to_string());
    let known = known().collect::<Vec<_>>().join(", ");
    Err(Failure::invalid(fill(texts.unknown_labels, &[&file, &folder, &told, &known])))
}

fn of_rows(args: &EvalArgs, clock: &dyn Fn() -> Duration, out: &Output) -> Result<Evaluation, Failure> {
    // The arguments require one of the two.
    let Some(file) = &args.train else { return Err(Failure::invalid(words().measures.needs_rows)) };
    // Sets of few examples name their splits after the number of examples.
    let few = args.shots.map(|shots| format!("train_{shots}"));
    let train = rows_of(file, few.iter().map(String::as_str).chain(["train"]))?;
    let parameters = Parameters::default();
    if !out.json {
        // Texts that no spec should answer do not train a spec.
        let of_specs = train.iter().filter(|row| row.label != eval::OUT_OF_SCOPE);
        let labels: Vec<&str> = of_specs.map(|row| row.label.as_str()).collect();
        let rows = labels.len().to_string();
        let specs = labels.into_iter().collect::<BTreeSet<_>>().len().to_string();
        out.note(&fill(words().router.training, &[&rows, &specs]));
    }
    if let Some(folds) = args.folds {
        let evaluation = eval::cross_validate(&train, folds as usize, &parameters, clock);
        return evaluation.ok_or_else(|| no_rows(file));
    }
    let Some(valid) = &args.valid else {
        return Err(Failure::invalid(words().measures.needs_valid));
    };
    let valid = rows(valid, "valid")?;
    let test = args.test.as_deref().map(|test| rows(test, "test")).transpose()?;
    Ok(eval::evaluate(&eval::Options {
        train: &train,
        valid: &valid,
        test: test.as_deref(),
        shots: args.shots.map(|shots| shots as usize),
        parameters: &parameters,
        clock,
    }))
}

fn rows(file: &Path, split: &str) -> Result<Vec<Row>, Failure> {
    rows_of(file, [split])
}

/// The rows of `file` that belong to the first of `splits` that occurs in it; `FILE:SPLIT` names a split explicitly. A
/// file with several splits, none of them among `splits`, is refused, because testing on training rows is never
/// intended.
fn rows_of<'a>(file: &Path, splits: impl IntoIterator<Item = &'a str>) -> Result<Vec<Row>, Failure> {
    let name = file.display().to_string();
    let (path, named) = match name.rsplit_once(':') {
        Some((path, split)) if !file.exists() => (path, Some(split)),
        _ => (name.as_str(), None),
    };
    let content = std::fs::read_to_string(path)
        .map_err(|error| Failure::invalid(fill(words().router.cannot_read, &[path, &error.to_string()])))?;
    let rows = eval::read_tsv(&content).map_err(|errors| {
        let problem = |error: &RowError| {
            let told = error.to_string();
            let message = told.split_once(": ").map_or(told.as_str(), |(_, message)| message);
            Problem { file: Some(path.to_owned()), line: Some(error.line), ..Problem::plain(message) }
        };
        let mut problems: Vec<Problem> = errors.iter().take(MOST_ROW_ERRORS).map(problem).collect();
        let more = errors.len().saturating_sub(MOST_ROW_ERRORS);
        problems.extend((more > 0).then(|| Problem::plain(format!("{more} more problems"))));
        Failure::Problems { subject: path.to_owned(), problems }
    })?;
    let known: BTreeSet<&str> = rows.iter().map(|row| row.split.as_str()).collect();
    let wanted = match named {
        Some(split) => known.get(split).copied(),
        None => splits.into_iter().find(|split| known.contains(split)),
    };
    match wanted {
        Some(wanted) => {
            let wanted = wanted.to_owned();
            Ok(rows.into_iter().filter(|row| row.split == wanted).collect())
        }
        None if rows.is_empty() => Err(no_rows(file)),
        None if known.len() == 1 && named.is_none() => Ok(rows),
        None => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(Failure::invalid(fill(words().router.other_splits, &[path, &known])))
        }
    }
}

fn no_rows(file: &Path) -> Failure {
    Failure::invalid(fill(words().router.no_rows, &[&file.display().to_string()]))
}

fn catalogue(folder: &Path) -> Result<Catalogue, Failure> {
    capataz_daemon::read_specs(folder).map_err(|error| Failure::of_specs(folder, &error))
}

/// `router lint`.
pub fn lint(args: &LintArgs, out: &mut Output) -> Outcome {
    let catalogue = catalogue(&args.specs)?;
    let findings = lint::lint(&catalogue);
    let wrong = findings.iter().any(|finding| finding.severity == Severity::Warning);
    let exit = if wrong { Exit::Failed } else { Exit::Ok };
    if out.json {
        let findings = serde_json::to_value(&findings).map_err(|error| Failure::failed(error.to_string()))?;
        out.document(&json!({ "specs": catalogue.specs().len(), "findings": findings }));
        return Ok(exit);
    }
    if findings.is_empty() {
        let folder = args.specs.display().to_string();
        out.line(&fill(words().router.clean, &[&folder, &specs_counted(catalogue.specs().len())]));
    }
    for finding in &findings {
        out.line(&in_words(finding));
    }
    Ok(exit)
}

/// A finding in a line: `warning: trip-planner: intents[0].examples: what is unwise; what to do`.
fn in_words(finding: &lint::Finding) -> String {
    let severity = match finding.severity {
        Severity::Warning => words().router.warning,
        Severity::Note => words().router.note,
    };
    let spec = finding.spec.as_deref().unwrap_or_default();
    let places = [severity, spec, &finding.key].into_iter().filter(|place| !place.is_empty());
    let places: Vec<&str> = places.collect();
    let advice = refusal(&finding.advice);
    visible(&format!("{}: {}; {advice}", places.join(": "), refusal(&finding.message)))
}
