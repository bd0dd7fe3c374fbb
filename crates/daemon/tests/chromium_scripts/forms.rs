//! The main job: a form is filled in, sent, and what came of it is taken.

use crate::bench::Bench;

#[tokio::test]
async fn a_form_is_filled_in_sent_and_its_answer_is_taken() {
    let bench = Bench::start().await;
    let ended = bench
        .run(
            r#"
            name = "sign in"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/sign-in"
            [[actions]]
            id = "user"
            kind = "fill"
            target = { label = "User" }
            value = "ana"
            "#,
        )
        .await
        .expect_success();
    assert_eq!(ended.script().succeeded, 2);
}
