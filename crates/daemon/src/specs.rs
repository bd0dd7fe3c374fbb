//! The spec files: read, watched, and handed to whoever routes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capataz_contracts::{json, spec, v1};
use capataz_hosts::{Computed, port};
use capataz_policy::codes;
use capataz_router::explain::TermKind;
use capataz_router::{Catalogue, Decision, Message, Query, Role, Router, Spec, SpecFileError, template};
use capataz_runtime::Runtime;
use capataz_shard::{Chosen, Route};
use tokio::sync::{Mutex, watch};
use tokio::task::{AbortHandle, JoinError};

use crate::reload::Difference;
use crate::status::WITHOUT_SPECS;
use crate::watching::Changes;

/// The agent that answers from a spec's own templates.
pub(crate) const TEMPLATE_AGENT: &str = "template";
/// What the ids of workers of the built-in agent begin with.
pub(crate) const TEMPLATE_WORKER: &str = "capataz-template-host";
/// Answers that the template agent computes at once.
const TEMPLATE_SLOTS: u32 = 256;
/// Files in one folder.
const MOST_FILES: usize = 10_000;

/// Why the specs were not loaded.
#[derive(Debug, thiserror::Error)]
pub enum SpecsError {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}: more than {MOST_FILES} files", .0.display())]
    TooMany(PathBuf),
    /// Each line names file, line, column and key.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SpecFileError>),
}

/// Where the spec files are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    None,
    Folder(PathBuf),
    /// Names and contents, of a program that embeds the daemon.
    Files(Vec<(String, String)>),
}

/// The specs that the daemon knows now.
#[derive(Clone, Debug)]
pub(crate) struct Specs {
    inner: Arc<Inner>,
}

/// What came of reading the files again.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// The number of specs.
    pub(crate) count: usize,
    difference: Difference,
}

/// What came of a reload, for all who wanted it.
type Outcome = Result<Reloaded, Arc<SpecsError>>;

/// All that a router knows of each of its specs, by their ids.
fn told(router: &Router) -> BTreeMap<String, String> {
    router.catalogue().specs().iter().map(|spec| (spec.id.clone(), format!("{spec:?}"))).collect()
}

#[derive(Debug)]
struct Inner {
    source: Source,
    current: watch::Sender<Arc<Router>>,
    runtime: Runtime,
    /// Reloads that have begun.
    begun: AtomicU64,
    /// The number of the last reload, and what came of it. There is one at a time, so that the last one to be read is the one that
    /// counts.
    last: Mutex<Option<(u64, Outcome)>>,
}

/// Reloads while it lives.
#[derive(Debug)]
pub(crate) struct Reloading(AbortHandle);

impl Drop for Reloading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads and trains; blocks.
pub(crate) fn load(source: &Source) -> Result<Router, SpecsError> {
    let files = match source {
        Source::None => Vec::new(),
        Source::Files(files) => {
            files.iter().map(|(name, content)| (name.clone(), content.clone().into_bytes())).collect()
        }
        Source::Folder(folder) => read_folder(folder)?,
    };
    let catalogue = Catalogue::read(&files).map_err(SpecsError::Invalid)?;
    Ok(Router::train(&catalogue))
}

/// The `*.toml` files of a folder, by name. Each name includes the folder, so that a person can open the file.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, SpecsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SpecsError::Read { path, source }
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
    }
    if paths.len() > MOST_FILES {
        return Err(SpecsError::TooMany(folder.to_owned()));
    }
    paths.sort();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let content = std::fs::read(&path).map_err(failed(&path))?;
        files.push((path.display().to_string(), content));
    }
    Ok(files)
}

impl Source {
    /// Returns whether there may ever be a spec.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

impl Specs {
    /// Hands the first router to the shard.
    pub(crate) async fn start(source: Source, router: Router, runtime: Runtime) -> Self {
        let router = Arc::new(router);
        runtime.set_router(Arc::new(SpecRouter(Arc::clone(&router)))).await;
        let current = watch::Sender::new(router);
        let inner = Inner { source, current, runtime, begun: AtomicU64::new(0), last: Mutex::new(None) };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn current(&self) -> Arc<Router> {
        self.inner.current()
    }

    /// Reads the files again. If any of them is invalid, nothing changes. Whoever asks while they are being read shares the next
    /// reload with all others who do. One that has begun goes on where nobody waits for it any more.
    pub(crate) async fn reload(&self) -> Outcome {
        let inner = Arc::clone(&self.inner);
        let seen = inner.begun.load(Ordering::Acquire);
        let reload = tokio::spawn(async move { inner.reload(seen).await });
        reload.await.unwrap_or_else(|error| Err(Arc::new(not_read(error))))
    }

    /// The same, and says in the log how it went.
    pub(crate) async fn reload_and_tell(&self) {
        match self.reload().await {
            Ok(Reloaded { count, difference }) => {
                let difference = difference.told("no spec has changed");
                tracing::info!(specs = count, "the specs were read again: {difference}");
            }
            Err(error) => tracing::error!(%error, "the specs stay unchanged: a file is invalid"),
        }
    }

    /// Reloads the specs whenever a file of the folder changes; `None` if the specs do not come from a folder.
    pub(crate) fn watch(&self) -> Option<Reloading> {
        let Source::Folder(folder) = &self.inner.source else { return None };
        let mut changes = match Changes::of([folder.clone()], |_| true) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "the specs are not watched; call ReloadSpecs after a change");
                return None;
            }
        };
        let specs = self.clone();
        let task = tokio::spawn(async move {
            while changes.settled().await {
                specs.reload_and_tell().await;
            }
        });
        Some(Reloading(task.abort_handle()))
    }

    /// The host of the built-in agent; `None` if there can be no specs.
    pub(crate) fn templates(&self, clock: port::Clock) -> Option<Arc<Computed>> {
        if !self.inner.source.is_some() {
            return None;
        }
        let current = self.inner.current.subscribe();
        Some(Computed::new(TEMPLATE_WORKER, template_agent(), move |assignment| {
            let router = Arc::clone(&current.borrow());
            answer(&router, assignment, clock())
        }))
    }
}

impl Inner {
    fn current(&self) -> Arc<Router> {
        Arc::clone(&self.current.borrow())
    }

    /// A reload for somebody before whom as many reloads as `seen` had begun: one that began later was read after that.
    async fn reload(&self, seen: u64) -> Outcome {
        let mut last = self.last.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(number, _)| *number > seen) {
            return outcome.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        let outcome = self.read_again().await.map_err(Arc::new);
        *last = Some((number, outcome.clone()));
        outcome
    }

    async fn read_again(&self) -> Result<Reloaded, SpecsError> {
        let source = self.source.clone();
        let loaded = tokio::task::spawn_blocking(move || load(&source)).await;
        let router = Arc::new(loaded.map_err(not_read)??);
        let count = router.catalogue().specs().len();
        let difference = Difference::of(&told(&self.current()), &told(&router));
        self.runtime.set_router(Arc::new(SpecRouter(Arc::clone(&router)))).await;
        self.current.send_replace(router);
        Ok(Reloaded { count, difference })
    }
}

/// Whoever was to read the files has ended before.
fn not_read(error: JoinError) -> SpecsError {
    SpecsError::Read { path: PathBuf::new(), source: std::io::Error::other(error) }
}

pub(crate) fn template_agent() -> v1::Agent {
    v1::Agent {
        name: TEMPLATE_AGENT.to_owned(),
        category: "built-in".to_owned(),
        kind: v1::AgentKind::Spec as i32,
        contract_version: capataz_contracts::spec::VERSION.to_string(),
        max_concurrency: TEMPLATE_SLOTS,
        ..v1::Agent::default()
    }
}

/// The template agent's answer to one assignment.
fn answer(router: &Router, assignment: &v1::Assignment, now_ms: i64) -> Result<v1::Payload, Box<v1::Error>> {
    let invalid = |message: String| Box::new(codes::error(codes::INVALID_REQUEST, message));
    let Some(v1::payload::Data::Inline(input)) =
        assignment.input.as_ref().and_then(|input| input.data.as_ref())
    else {
        return Err(invalid("the template agent answers SpecRequests that are no blobs".to_owned()));
    };
    let request = spec::parse_request(input).map_err(|violations| {
        let violations: Vec<_> = violations.iter().map(ToString::to_string).collect();
        invalid(format!("the input is not a SpecRequest: {}", violations.join("; ")))
    })?;
    let id = request.spec.as_deref().unwrap_or_default();
    let Some(spec) = router.catalogue().find(id) else {
        let message = format!("there is no spec {id:?} any more");
        return Err(Box::new(codes::error(codes::SPEC_NOT_AVAILABLE, message)));
    };
    let response = template::answer(spec, &json::print(spec::REQUEST, &request), now_ms);
    Ok(v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(response.to_string().into())),
    })
}

/// The catalogue as the shard asks it.
struct SpecRouter(Arc<Router>);

impl Route for SpecRouter {
    fn route(&self, ask: &v1::Ask, context: &v1::SessionContext, spec: Option<&str>) -> Chosen {
        let history = messages(context);
        let query = query(&ask.text, context, &ask.preferences, &history);
        let catalogue = self.0.catalogue();
        let target = routing(&self.0, &query, spec)
            .and_then(|routing| {
                let agent = catalogue.find(&routing.spec)?.agent.clone();
                Some((Box::new(routing), agent))
            })
            .ok_or_else(|| {
                let message = match spec {
                    Some(spec) => format!("there is no spec {spec:?}"),
                    None => "no specs are loaded".to_owned(),
                };
                let is_empty = catalogue.specs().is_empty();
                v1::Error {
                    suggested_action: is_empty.then(|| WITHOUT_SPECS.to_owned()),
                    ..codes::error(codes::SPEC_NOT_AVAILABLE, message)
                }
            });
        Chosen { target, default_spec: catalogue.default_spec().map(|spec| spec.id.clone()) }
    }
}

/// The decision about a text, for the named spec or for the one that the router chooses. For the spec that holds the session,
/// what the router alone would choose is in it.
pub(crate) fn routing(router: &Router, query: &Query<'_>, spec: Option<&str>) -> Option<v1::Routing> {
    let decision = match spec {
        Some(spec) => router.consider(query, spec)?,
        None => router.route(query),
    };
    let mut routing = described(&decision, router.catalogue().find(&decision.spec)?);
    routing.language = match query.language {
        Some(language) => language.to_owned(),
        None => router.spoken(query).unwrap_or_default().to_owned(),
    };
    if spec.is_some() && spec == query.current_spec {
        let Decision { spec, confidence, reason, .. } = router.route(query);
        routing.alone = Some(v1::RouterChoice { spec, confidence, reason });
    }
    Some(routing)
}

/// What would answer the text without being named: the spec that holds the session, if there is one, else the router's choice.
pub(crate) fn would_answer(router: &Router, query: &Query<'_>) -> Option<v1::Routing> {
    let held = query.current_spec.filter(|spec| router.catalogue().find(spec).is_some());
    routing(router, query, held)
}

pub(crate) fn messages(context: &v1::SessionContext) -> Vec<Message<'_>> {
    context
        .history
        .iter()
        .map(|said| Message {
            role: match said.role() {
                v1::MessageRole::Assistant => Role::Assistant,
                v1::MessageRole::User | v1::MessageRole::Unspecified => Role::User,
            },
            text: &said.text,
            spec: said.spec.as_deref(),
        })
        .collect()
}

pub(crate) fn query<'a>(
    text: &'a str,
    context: &'a v1::SessionContext,
    preferences: &'a std::collections::BTreeMap<String, String>,
    history: &'a [Message<'a>],
) -> Query<'a> {
    let language = preferences.get("language").or_else(|| context.preferences.get("language"));
    Query {
        text,
        current_spec: context.current_spec.as_deref(),
        history,
        language: language.map(String::as_str),
    }
}

/// A decision as the contract's message, with the spec's own description.
fn described(decision: &Decision, spec: &Spec) -> v1::Routing {
    v1::Routing {
        spec: decision.spec.clone(),
        confidence: decision.confidence,
        reason: decision.reason.clone(),
        alternatives: decision
            .alternatives
            .iter()
            .map(|other| v1::RoutingAlternative { spec: other.spec.clone(), confidence: other.confidence })
            .collect(),
        detected_intent: decision.detected_intent.clone(),
        keywords_matched: decision.keywords_matched.clone(),
        patterns_matched: decision.patterns_matched.clone(),
        suggested_pattern: decision.suggested_pattern.clone(),
        tone: spec.tone.clone(),
        response_style: spec.response_style.clone(),
        spec_title: spec.title.clone(),
        spec_description: spec.description.clone(),
        confidence_breakdown: Some(v1::ConfidenceBreakdown {
            keyword: decision.breakdown.keyword,
            intent: decision.breakdown.intent,
            context: decision.breakdown.context,
        }),
        is_fallback: decision.is_fallback,
        ..v1::Routing::default()
    }
}

/// What would answer, with every term of the specs that the router considered, its own choice first.
pub(crate) fn explained(router: &Router, query: &Query<'_>) -> v1::ExplainResponse {
    let explanation = router.explain(query, None);
    let routing = would_answer(router, query);
    let (mut specs, others): (Vec<_>, Vec<_>) =
        explanation.considered.iter().partition(|considered| considered.spec == explanation.spec);
    specs.extend(others);
    let specs = specs.into_iter().map(|considered| v1::SpecScore {
        spec: considered.spec.clone(),
        score: considered.total,
        confidence: router.consider(query, &considered.spec).map_or(0.0, |considered| considered.confidence),
        terms: considered
            .terms
            .iter()
            .map(|term| v1::ScoreTerm {
                kind: kind_of(term.kind).to_owned(),
                name: term.what.clone(),
                contribution: term.logit,
            })
            .collect(),
    });
    let specs = specs.collect();
    let changes = explanation.change.to_string();
    let changes = changes.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    v1::ExplainResponse { routing, specs, counterfactuals: changes }
}

fn kind_of(kind: TermKind) -> &'static str {
    match kind {
        TermKind::Intent => "intent",
        TermKind::Keyword => "keyword",
        TermKind::Pattern => "pattern",
        TermKind::History => "history",
        TermKind::Continuity => "continuity",
        TermKind::Language => "language",
    }
}

#[cfg(test)]
mod tests {
    use capataz_crew::Known;
    use capataz_runtime::Options;
    use capataz_store::{MemoryStore, Store};
    use futures_util::future::join_all;
    use tokio::task::{JoinHandle, yield_now};

    use super::*;
    use crate::SHARD;

    async fn specs(source: Source) -> Specs {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runtime = Runtime::start(vec![SHARD], store, Known::default(), Options::default()).await.unwrap();
        Specs::start(source, load(&Source::None).unwrap(), runtime).await
    }

    /// A reload that has begun, and whether it went well.
    async fn begun(specs: &Specs) -> JoinHandle<bool> {
        let caller = specs.clone();
        let reload = tokio::spawn(async move { caller.reload().await.is_ok() });
        while specs.inner.begun.load(Ordering::Acquire) == 0 {
            yield_now().await;
        }
        reload
    }

    #[tokio::test]
    async fn whoever_asks_while_the_specs_are_read_shares_the_next_reload() {
        let broken = Source::Files(vec![("desk.toml".to_owned(), "id = ".to_owned())]);
        for (source, is_good) in [(Source::None, true), (broken, false)] {
            let specs = specs(source).await;
            let first = begun(&specs).await;
            let outcomes = join_all((0..100).map(|_| specs.reload())).await;
            assert!(outcomes.iter().all(|outcome| outcome.is_ok() == is_good));
            assert_eq!(first.await.unwrap(), is_good);
            assert_eq!(specs.inner.begun.load(Ordering::Acquire), 2);
            assert_eq!(specs.reload().await.is_ok(), is_good);
            assert_eq!(
                specs.inner.begun.load(Ordering::Acquire),
                3,
                "nobody has what is older than the call"
            );
        }
    }

    #[tokio::test]
    async fn a_reload_goes_on_when_its_caller_is_gone() {
        let specs = specs(Source::None).await;
        begun(&specs).await.abort();
        let last = specs.inner.last.lock().await;
        assert!(matches!(*last, Some((1, Ok(_)))), "{last:?}");
    }
}
