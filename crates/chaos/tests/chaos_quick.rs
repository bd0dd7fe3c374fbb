//! A few kills under plans, asks and pipelines, and under executions.

mod quick;

#[test]
fn nothing_is_lost_or_doubled_over_a_few_kills() -> std::io::Result<()> {
    quick::nothing_is_lost_or_doubled("nothing_is_lost_or_doubled_over_a_few_kills", "plans,asks,pipelines")
}

#[test]
fn nothing_is_lost_or_doubled_of_executions_over_a_few_kills() -> std::io::Result<()> {
    quick::nothing_is_lost_or_doubled("nothing_is_lost_or_doubled_of_executions_over_a_few_kills", "modes")
}
