//! Answers by the seed's contracts of planners.

use capataz_contracts::v1;
use capataz_policy::codes;
use regex::Captures;
use serde_json::{Value, json};

use super::{LAST, Rule, RuleStep, Rules};

/// What the rules say has no doubt in it.
const CONFIDENCE: u32 = 1;

/// What a rule says that has done its steps, and whose results are others than expected.
const NO_OTHER_PLAN: &str =
    "the rule's steps are done, their results are others than expected, and it has no other plan";

/// Patterns in the message that none of them fits.
const PATTERNS_SHOWN: usize = 5;

/// A prompt, and what the query's rule has found in it.
struct Asked<'a> {
    prompt: &'a Value,
    rule: &'a Rule,
    found: Captures<'a>,
    /// Names of the pattern's groups.
    names: Vec<&'a str>,
}

impl Rules {
    /// The answer to a prompt, by the contract that its keys tell.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`: it is no prompt, or no rule is about its query.
    pub fn answer(&self, prompt: &Value) -> Result<Value, Box<v1::Error>> {
        let refuse = |message: String| Box::new(codes::error(codes::INVALID_ARGUMENT, message));
        let Some(query) = prompt.get("query").and_then(Value::as_str) else {
            return Err(refuse("the input is no prompt of an execution".to_owned()));
        };
        let found = self.rules.iter().find_map(|(pattern, rule)| {
            let names = pattern.capture_names().flatten().collect();
            Some(Asked { prompt, rule, found: pattern.captures(query)?, names })
        });
        let asked = found.ok_or_else(|| refuse(self.unknown()))?;
        if prompt.get("validatedPlan").is_some() {
            Ok(asked.supervised())
        } else if prompt.get("progress").is_some() {
            asked.planner().ok_or_else(|| refuse(NO_OTHER_PLAN.to_owned()))
        } else {
            asked.simple().ok_or_else(|| refuse("the rule has no steps".to_owned()))
        }
    }

    /// That no rule is about a query, and what rules there are.
    fn unknown(&self) -> String {
        let mut patterns: Vec<String> =
            self.rules.iter().take(PATTERNS_SHOWN).map(|(pattern, _)| format!("/{pattern}/")).collect();
        let more = self.rules.len().saturating_sub(PATTERNS_SHOWN);
        if more > 0 {
            patterns.push(format!("{more} more"));
        }
        format!("no rule is about this query; there are rules about {}", patterns.join(", "))
    }
}

impl Asked<'_> {
    /// Each step is done once, in the order of the rule, whatever came of the one before.
    fn simple(&self) -> Option<Value> {
        let steps = &self.rule.steps;
        let done = self.prompt.get("step").and_then(Value::as_u64).unwrap_or(0);
        let place = usize::try_from(done).unwrap_or(usize::MAX).min(steps.len().checked_sub(1)?);
        let step = steps.get(place)?;
        Some(json!({
            "action": { "tool": step.tool, "parameters": self.own(&step.parameters) },
            "reasoning": reasoning(step),
            "continue": place + 1 < steps.len(),
            "confidence": CONFIDENCE,
        }))
    }

    /// A plan where one is wanted, and the first step of it that has not succeeded. `None`: all of them have, and the results are
    /// others than expected; to do the same again would be to do twice what may not be undone.
    fn planner(&self) -> Option<Value> {
        let deviates = self.prompt.get("deviationAnalysis").is_some();
        let known = self.prompt.pointer("/currentPlan/steps").and_then(Value::as_array);
        let mut answer = json!({ "replanRequired": false, "confidence": CONFIDENCE });
        let (steps, place) = match known.filter(|_| !deviates) {
            Some(steps) => (steps.clone(), self.done_of(steps.len())),
            None => {
                let another = deviates && !self.rule.otherwise.is_empty();
                let steps = self.plan(if another { &self.rule.otherwise } else { &self.rule.steps });
                let checkpoints = if another { &[][..] } else { self.rule.checkpoints.as_slice() };
                // The same steps again: what has succeeded is not done twice.
                let does = |step: &Value| ["id", "tool", "parameters"].map(|key| step.get(key).cloned());
                let is_same = known.is_some_and(|known| known.iter().map(does).eq(steps.iter().map(does)));
                let done = self.done_of(steps.len());
                if is_same && done == steps.len() {
                    return None;
                }
                let (kind, place) = if is_same { ("modify", done) } else { ("create", 0) };
                set(
                    &mut answer,
                    "planUpdate",
                    json!({
                        "type": kind, "steps": steps, "estimatedTime": self.rule.minutes,
                        "checkpoints": checkpoints,
                    }),
                );
                (steps, place)
            }
        };
        let step = steps.get(place).or(steps.last()).unwrap_or(&Value::Null);
        let parameters = self.planned(step);
        set(
            &mut answer,
            "nextAction",
            json!({
                "tool": step.get("tool"), "parameters": parameters,
                "stepIndex": place.min(steps.len().saturating_sub(1)),
            }),
        );
        set(&mut answer, "reasoning", step.get("description").cloned().unwrap_or_else(|| "".into()));
        Some(answer)
    }

    /// How many steps of the plan have succeeded: they are done in their order.
    fn done_of(&self, steps: usize) -> usize {
        let progress = self.prompt.get("progress").and_then(Value::as_f64).unwrap_or(0.0);
        let share = |done: usize| {
            let [done, steps] = [done, steps].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            f64::from(done) / f64::from(steps.max(1))
        };
        // Shares of at most 50 steps are further apart than this.
        (0..=steps).find(|done| share(*done) > progress - 0.001).unwrap_or(steps)
    }

    /// The step that the plan names, once a person was asked what there is to ask before it.
    fn supervised(&self) -> Value {
        let step = self.prompt.pointer("/adherenceCheck/planStep").filter(|step| step.is_object());
        let Some(step) = step else {
            return json!({
                "decision": "complete", "planAdherence": 1, "confidence": CONFIDENCE,
                "reasoning": "every step of the plan is done",
            });
        };
        let id = step.get("id").and_then(Value::as_str).unwrap_or_default();
        let own = self.rule.steps.iter().find(|own| own.id == id);
        if let Some(ask) = own.and_then(|own| own.ask.as_ref()).filter(|ask| !self.was_asked(&ask.reason)) {
            return json!({
                "decision": "escalate", "planAdherence": 1, "confidence": CONFIDENCE,
                "reasoning": "the rule says so",
                "escalation": {
                    "reason": ask.reason, "userQuestion": ask.question, "suggestedOptions": ask.options,
                },
            });
        }
        let parameters = self.planned(step);
        json!({
            "decision": "continue", "planAdherence": 1, "confidence": CONFIDENCE,
            "nextAction": {
                "tool": step.get("tool"), "parameters": parameters,
                "justification": "it is what the plan says",
            },
            "reasoning": step.get("description"),
        })
    }

    fn was_asked(&self, reason: &str) -> bool {
        let before = self.prompt.get("escalationHistory").and_then(Value::as_array);
        let mut told = before.into_iter().flatten().filter_map(Value::as_str);
        told.any(|told| told.strip_prefix(reason).is_some_and(|rest| rest.starts_with(": ")))
    }

    /// The steps of a rule as those of a plan: what the query says is in them, what results say is not yet.
    fn plan(&self, steps: &[RuleStep]) -> Vec<Value> {
        let mut before: Option<&str> = None;
        let mut plan = Vec::new();
        for step in steps {
            let needs = match &step.depends_on {
                Some(needs) => needs.clone(),
                None => before.into_iter().map(str::to_owned).collect(),
            };
            plan.push(json!({
                "id": step.id,
                "description": reasoning(step),
                "tool": step.tool,
                "parameters": replaced(&step.parameters, &|name| self.group(name)),
                "expected": step.expected.clone().unwrap_or_else(|| json!({ "success": true })),
                "dependsOn": needs,
            }));
            before = Some(&step.id);
        }
        plan
    }

    /// The parameters of a step of the plan with what the last result says. Where nobody has changed them, the rule's own are
    /// gone by: what the query says is never taken for a mark.
    fn planned(&self, step: &Value) -> Option<Value> {
        let (id, parameters) = (step.get("id").and_then(Value::as_str)?, step.get("parameters")?);
        let own =
            self.rule.steps.iter().chain(&self.rule.otherwise).find(|own| {
                own.id == id && replaced(&own.parameters, &|name| self.group(name)) == *parameters
            });
        Some(match own {
            Some(own) => self.own(&own.parameters),
            None => replaced(parameters, &|name| self.last(name)),
        })
    }

    /// The parameters of the rule with what the query and the last result say.
    fn own(&self, parameters: &Value) -> Value {
        replaced(parameters, &|name| self.group(name).or_else(|| self.last(name)))
    }

    /// What a group of the pattern has found.
    fn group(&self, name: &str) -> Option<Value> {
        let is_group = self.names.contains(&name);
        is_group.then(|| self.found.name(name).map_or("", |found| found.as_str()).into())
    }

    /// What the action before has given back, or a part of it: `last.output.0`.
    fn last(&self, name: &str) -> Option<Value> {
        let part = part_of_last(name)?;
        let results = ["/lastResult/output", "/adherenceCheck/actualResult/output"];
        let output = results.iter().find_map(|path| self.prompt.pointer(path));
        let found = output.and_then(|output| output.pointer(&part.replace('.', "/")));
        Some(found.cloned().unwrap_or(Value::Null))
    }
}

/// Which part of the last result a mark of this name is, with a point before each key of it; `None` of any other name.
pub(super) fn part_of_last(name: &str) -> Option<&str> {
    name.strip_prefix(LAST).filter(|part| part.is_empty() || part.starts_with('.'))
}

/// A value with what `of` has for the name in every `${name}`: as it is where a text is nothing else, and as text within one. A
/// name that it has nothing for stays. What has been put in is not looked at again.
fn replaced(value: &Value, of: &dyn Fn(&str) -> Option<Value>) -> Value {
    match value {
        Value::String(text) => match marks(text).next() {
            Some((0, end, name)) if end == text.len() => of(name).unwrap_or_else(|| value.clone()),
            _ => filled(text, of).into(),
        },
        Value::Array(items) => items.iter().map(|item| replaced(item, of)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), replaced(value, of))).collect()
        }
        other => other.clone(),
    }
}

fn filled(text: &str, of: &dyn Fn(&str) -> Option<Value>) -> String {
    let (mut filled, mut from) = (String::new(), 0);
    for (start, end, name) in marks(text) {
        let Some(with) = of(name) else { continue };
        filled.push_str(text.get(from..start).unwrap_or_default());
        match with {
            Value::String(with) => filled.push_str(&with),
            with => filled.push_str(&with.to_string()),
        }
        from = end;
    }
    filled.push_str(text.get(from..).unwrap_or_default());
    filled
}

/// The marks `${name}` of a text: where each begins and ends, and its name.
pub(super) fn marks(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    text.match_indices("${").filter_map(|(start, mark)| {
        let inner = text.get(start + mark.len()..)?;
        let name = inner.get(..inner.find('}')?)?;
        Some((start, start + mark.len() + name.len() + 1, name))
    })
}

fn reasoning(step: &RuleStep) -> &str {
    if step.description.is_empty() { &step.id } else { &step.description }
}

fn set(value: &mut Value, key: &str, to: Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert(key.to_owned(), to);
    }
}
