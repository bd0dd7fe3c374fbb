//! A worker in a few lines. Start the daemon, then `cargo run -p capataz-client --example hello_worker`, then give it
//! work: a plan with a task for the agent `greeter`.

use capataz_client::ClientError;
use capataz_client::worker::{Task, TaskError, Worker};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    Worker::new("http://127.0.0.1:7411").slots(4).agent("greeter", greet).run().await
}

async fn greet(task: Task) -> Result<Value, TaskError> {
    let whom: Value = task.input_json()?;
    task.progress(0.5, "looking for words").await;
    Ok(json!({ "hello": whom, "attempt": task.attempt() }))
}
