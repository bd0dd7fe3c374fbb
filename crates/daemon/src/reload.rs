//! Reads the configuration again while the daemon runs. What it says of agents, commands and resources counts at once; what it
//! says of anything else, after a restart. A configuration with anything wrong changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::watching::Changes;
use crate::{Config, Daemon};

/// What makes the daemon read its configuration again.
#[derive(Debug)]
pub(crate) struct Following {
    /// The files may have changed since the daemon began to start.
    is_fresh: bool,
    asked: mpsc::Receiver<()>,
    /// `None` where the files cannot be watched.
    changes: Option<Changes>,
}

/// Why the configuration is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody asked for it, and means the specs, too.
    Asked,
    /// One of its files has changed.
    Changed,
}

impl Following {
    /// Waits until the configuration is to be read again.
    pub(crate) async fn next(following: &mut Option<Self>) -> Why {
        let Some(Self { is_fresh, asked, changes }) = following else {
            return std::future::pending().await;
        };
        if std::mem::take(is_fresh) {
            return Why::Changed;
        }
        let asked = async {
            match asked.recv().await {
                Some(()) => Why::Asked,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            match changes {
                Some(changes) => match changes.settled().await {
                    true => Why::Changed,
                    false => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            why = asked => why,
            why = changed => why,
        }
    }
}

impl Daemon {
    /// From now on the configuration is read again when one of its files changes, and whenever something is received. Agents,
    /// commands and resources that are added, changed or taken away count from then on; work that has begun goes on as it
    /// began. Where anything is wrong with the files, nothing changes. What has changed, and what is wrong, is logged.
    pub fn follow_config(&mut self, asked: mpsc::Receiver<()>) {
        self.following = Some(Following { is_fresh: true, asked, changes: watch(&self.config) });
    }

    pub(crate) async fn reload(&mut self, why: Why) {
        match self.read_again().await {
            Ok(config) => self.configure(config, why).await,
            Err(error) => tracing::error!("the configuration stays as it was: {error}"),
        }
        if why == Why::Asked && self.config.spec_source().is_some() {
            self.specs.reload_and_tell().await;
        }
    }

    async fn read_again(&mut self) -> Result<Config, Box<dyn std::error::Error + Send + Sync>> {
        if let Some(following) = &mut self.following {
            // Folders may be others of the same names by now.
            following.changes = watch(&self.config);
        }
        let config = tokio::task::spawn_blocking(self.config.again()).await??;
        match &mut self.following {
            Some(following) if config.files() != self.config.files() => following.changes = watch(&config),
            _ => return Ok(config),
        }
        // A file that was not watched may have changed since it was read.
        Ok(tokio::task::spawn_blocking(config.again()).await??)
    }

    async fn configure(&mut self, mut config: Config, why: Why) {
        let configured = match self.hosts.configured(&config) {
            Ok(configured) => configured,
            Err(error) => return tracing::error!("the configuration stays as it was: {error}"),
        };
        let later = settings_that_differ(&self.config, &config);
        // What counts once the daemon is started again does not count by halves.
        config.specs_dir.clone_from(&self.config.specs_dir);
        config.specs.clone_from(&self.config.specs);
        let difference = Difference::of(&names(&self.config), &names(&config));
        self.runtime.configure(crate::known(&config, self.hosts.number())).await;
        if let Err(error) = self.hosts.serve(configured) {
            return tracing::error!(%error, "the daemon does not serve all that the configuration names");
        }
        self.config.take_names(config);
        if why == Why::Asked || difference != Difference::default() {
            tracing::info!("the configuration was read again: {difference}");
        }
        if !later.is_empty() {
            tracing::warn!(
                "changed, and not in use before the daemon is started again: {}",
                later.join(", ")
            );
        }
    }
}

/// Changes of the files that the configuration was read from, and of those beside it that may be named in it and were wrong.
fn watch(config: &Config) -> Option<Changes> {
    let absolute = |file: &PathBuf| std::path::absolute(file).ok();
    let files: BTreeSet<PathBuf> = config.files().iter().filter_map(absolute).collect();
    let folders: BTreeSet<PathBuf> =
        files.iter().filter_map(|file| Some(file.parent()?.to_owned())).collect();
    let home = config.files().first().and_then(absolute).and_then(|file| Some(file.parent()?.to_owned()));
    let watched = folders.clone();
    let counts = move |path: &Path| {
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        // A folder that is mounted from elsewhere may be replaced as a whole, by a link `..data`.
        let is_whole = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".."));
        let is_beside = path.parent() == home.as_deref() && is_toml;
        is_beside || is_whole || files.contains(path) || watched.contains(path)
    };
    Changes::of(folders, counts)
        .map_err(
            |error| tracing::warn!(%error, "the configuration is not watched; send SIGHUP after a change"),
        )
        .ok()
}

/// Everything that can be changed while the daemon runs: each name, and all that is said of it.
fn names(config: &Config) -> BTreeMap<String, String> {
    fn said(name: &str, of: &impl Debug) -> (String, String) {
        (name.to_owned(), format!("{of:?}"))
    }
    let agents = config.agents.iter().map(|agent| said(&agent.name, agent));
    let declared = config.declared_agents.iter().map(|agent| said(&agent.name, agent));
    let models = config.models.iter().map(|model| said(&model.name, model));
    let planners = config.rules.iter().map(|(name, rules)| said(name, rules));
    let commands = config.commands.iter().map(|name| said(&format!("command {name}"), &()));
    let resources = config.resources.iter().map(|name| said(&format!("resource {name}"), &()));
    agents.chain(declared).chain(models).chain(planners).chain(commands).chain(resources).collect()
}

/// The keys whose values differ, of those that count at a start alone.
fn settings_that_differ(now: &Config, new: &Config) -> Vec<&'static str> {
    fn text(of: &impl Debug) -> String {
        format!("{of:?}")
    }
    let values = |config: &Config| {
        [
            ("listen", config.listen.clone()),
            ("data_dir", text(&std::path::absolute(&config.data_dir).ok())),
            ("specs_dir", text(&config.specs_dir)),
            ("secrets_dir", text(&config.secrets_dir)),
            ("retention", text(&config.retention)),
            ("health_checks", text(&config.health_checks)),
            ("browser", text(&config.browser)),
            ("telemetry", text(&config.telemetry)),
            ("drain_timeout", text(&config.drain_timeout)),
            ("demo_page", text(&config.demo_page)),
        ]
    };
    let differ = |((key, now), (_, new)): (_, (_, String))| (now != new).then_some(key);
    values(now).into_iter().zip(values(new)).filter_map(differ).collect()
}

/// How two configurations, or two states of the specs, differ in names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl Difference {
    pub(crate) fn of(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Self {
        let (old, kept): (Vec<&String>, Vec<&String>) =
            after.keys().partition(|name| !before.contains_key(*name));
        let changed = kept.into_iter().filter(|name| before.get(*name) != after.get(*name));
        let removed = before.keys().filter(|name| !after.contains_key(*name));
        Self {
            added: old.into_iter().cloned().collect(),
            changed: changed.cloned().collect(),
            removed: removed.cloned().collect(),
        }
    }

    /// The difference in words; `nothing` where there is none.
    pub(crate) fn told(&self, nothing: &str) -> String {
        let told = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let told = told.into_iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> = told.map(|(how, names)| format!("{how} {}", names.join(", "))).collect();
        if told.is_empty() { nothing.to_owned() } else { told.join("; ") }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.told("nothing of agents has changed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[(&str, &str)]) -> BTreeMap<String, String> {
        names.iter().map(|(name, said)| ((*name).to_owned(), (*said).to_owned())).collect()
    }

    #[test]
    fn a_difference_names_what_came_what_is_another_and_what_went() {
        let before = named(&[("same", "1"), ("other", "1"), ("gone", "1"), ("left", "1")]);
        let after = named(&[("same", "1"), ("other", "2"), ("new", "1")]);
        let difference = Difference::of(&before, &after);
        assert_eq!(difference.to_string(), "added new; changed other; removed gone, left");
        assert_eq!(Difference::of(&after, &after).to_string(), "nothing of agents has changed");
    }

    #[test]
    fn settings_that_count_at_a_start_alone_are_named() {
        let now = Config::embedded(PathBuf::from("data"));
        let mut new = now.clone();
        (new.demo_page, new.listen) = (true, "127.0.0.1:1".to_owned());
        assert_eq!(settings_that_differ(&now, &new), ["listen", "demo_page"]);
        assert_eq!(settings_that_differ(&now, &now.clone()), [""; 0]);
    }
}
