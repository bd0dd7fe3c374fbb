//! What tasks are given of large outputs of earlier ones, through the real program.

use std::process::Command;

use serde_json::Value;

use crate::served::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

const AGENTS: &str = r#"
[[agents]]
name = "large"
output = "text"
command = ["/bin/sh", "-c", "cat > /dev/null; head -c 46080 /dev/zero | tr '\\000' a"]

[[agents]]
name = "medium"
command = ["/bin/sh", "-c", "cat > /dev/null; printf '\"'; head -c 20000 /dev/zero | tr '\\000' b; printf '\"'"]

[[agents]]
name = "count"
command = ["wc", "-c"]
"#;

const PLAN: &str = r#"
name = "large outputs"
[[waves]]
tasks = [{ name = "a", agent = "large" }, { name = "b", agent = "medium" }]
[[waves]]
tasks = [
  { name = "of-a-blob", agent = "count", input = { text = "${tasks.a.output}" } },
  { name = "of-two", agent = "count", input = ["${tasks.b.output}", "${tasks.b.output}"] },
  { name = "of-one", agent = "count", input = ["${tasks.b.output}"] },
]
"#;

#[test]
fn a_command_is_given_all_of_the_large_outputs_that_its_input_refers_to() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), AGENTS);
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let ran = Command::new(PROGRAM)
        .args(["run", plan.to_str().unwrap(), "--json", "--addr", served.address()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    let shown = Command::new(PROGRAM)
        .args(["runs", "show", "latest", "--outputs", "--json", "--addr", served.address()])
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let output = |task: usize| run["waves"][1]["tasks"][task]["output"].clone();
    // `{"text":"…"}` has 11 bytes beside the text, `["…","…"]` 7 beside two, and `["…"]` 4 beside one.
    let expected = [46_080 + 11, 2 * 20_000 + 7, 20_000 + 4];
    for (task, bytes) in expected.into_iter().enumerate() {
        assert!(output(task).to_string().contains(&bytes.to_string()), "{task}: {}", output(task));
    }
}
