//! The places at which a start names what the daemon may not know: a refusal tells them.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::child_run::Work as Child;
use capataz_engine::Work;
use capataz_policy::registry::Sort;

/// The path of the first place of each name, by what is said where the name is not known.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<(Sort, String), String>);

impl Places {
    pub(super) fn of(work: &Work) -> Self {
        let mut places = Self::default();
        match work {
            Work::Plan(plan) => places.add_plan(plan, "plan"),
            Work::Pipeline(pipeline) => places.add_pipeline(pipeline, "pipeline"),
            Work::Mode(run) => places.add_mode(run),
            // These name no agent: a script needs a browser, an ask has a spec, and a fork has what its run was started with.
            Work::Script(_) | Work::Ask(_) | Work::Fork(_) => {}
        }
        places
    }

    pub(super) fn of_mode(run: &v1::ModeRun) -> Self {
        let mut places = Self::default();
        places.add_mode(run);
        places
    }

    /// The place of the name that this error says is not known.
    pub(super) fn find(&self, error: &v1::Error) -> Option<String> {
        let mut named = self.0.iter();
        let (_, path) = named.find(|((sort, name), _)| sort.not_known(name) == error.message)?;
        Some(path.clone())
    }

    fn add(&mut self, sort: Sort, name: &str, path: impl FnOnce() -> String) {
        self.0.entry((sort, name.to_owned())).or_insert_with(path);
    }

    fn add_plan(&mut self, plan: &v1::Plan, path: &str) {
        let lists =
            [(Sort::Command, "commands", &plan.commands), (Sort::Resource, "resources", &plan.resources)];
        for (sort, key, names) in lists {
            for (index, name) in names.iter().enumerate() {
                self.add(sort, name, || format!("{path}.{key}[{index}]"));
            }
        }
        for (wave, of) in plan.waves.iter().enumerate() {
            for (index, task) in of.tasks.iter().enumerate() {
                let path = || format!("{path}.waves[{wave}].tasks[{index}]");
                match task.run.as_ref().map(|run| run.work.as_ref()) {
                    None => self.add(Sort::Agent, &task.agent, || format!("{}.agent", path())),
                    Some(Some(Child::Plan(plan))) => self.add_plan(plan, &format!("{}.run.plan", path())),
                    Some(Some(Child::Pipeline(pipeline))) => {
                        self.add_pipeline(pipeline, &format!("{}.run.pipeline", path()));
                    }
                    Some(Some(Child::Script(_) | Child::Ask(_)) | None) => {}
                }
            }
        }
    }

    fn add_pipeline(&mut self, pipeline: &v1::Pipeline, path: &str) {
        for (index, phase) in pipeline.phases.iter().enumerate() {
            self.add(Sort::Agent, &phase.agent, || format!("{path}.phases[{index}].agent"));
        }
    }

    fn add_mode(&mut self, run: &v1::ModeRun) {
        self.add(Sort::Agent, &run.planner, || "mode.planner".to_owned());
        for (index, tool) in run.tools.iter().enumerate() {
            self.add(Sort::Agent, &tool.name, || format!("mode.tools[{index}].name"));
        }
    }
}
