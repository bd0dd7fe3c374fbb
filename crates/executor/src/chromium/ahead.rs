//! The picture of a page at rest, taken before anybody needs it.
//!
//! A picture costs two frames and its encoding, which is most of what an action would take. So it is taken between
//! actions, when the page has come to rest, and serves for as long as the page shows no sign of change, but not for longer
//! than [`SERVES_FOR`]: some changes show none. It is masked like any other: what is secret was looked for before and after
//! it was taken.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, OTHER_FRAMES_LIMIT, READ_LIMIT};
use super::script::function;
use crate::page::{Picture, SecretsIn};

/// Longest wait for a page to come to rest. One that moves for longer has its picture taken when that is needed.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// Longest time, by the monotonic clock, for which a picture serves. Not every change shows a sign: not one within a closed
/// shadow root, nor a rule of a style sheet that a script changes in place, nor the image of a style that arrives late.
pub(super) const SERVES_FOR: Duration = Duration::from_secs(2);

/// How often a picture is taken again where the page has moved meanwhile.
const ATTEMPTS: usize = 3;

/// A picture, and the documents that were at rest when it was taken, each with its token.
#[derive(Clone, Debug)]
struct Kept {
    picture: Picture,
    /// When it was begun to be taken.
    since: Instant,
    documents: Vec<(String, u64)>,
}

/// What is known of the next picture.
#[derive(Debug)]
pub(super) struct Ahead {
    /// `None` once its result is known.
    task: Option<JoinHandle<Option<Kept>>>,
    /// True once the picture itself is being taken.
    taking: watch::Receiver<bool>,
    kept: Option<Kept>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Ahead {
    /// The picture that was taken, or the one that is being taken now. One that still waits for the page to come to rest is
    /// given up: taking it at once is faster. In the page the wait ends with what is done there instead, which is to settle an
    /// element, to take the picture, or to act.
    async fn kept(&mut self) -> Option<&Kept> {
        if self.is_worth_waiting() { self.ended().await } else { None }
    }

    fn is_worth_waiting(&self) -> bool {
        *self.taking.borrow() || self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    async fn ended(&mut self) -> Option<&Kept> {
        if let Some(task) = &mut self.task {
            self.kept = task.await.ok().flatten();
            self.task = None;
        }
        self.kept.as_ref()
    }
}

impl ChromiumPage {
    /// Sets for how long a picture that was taken ahead may serve.
    pub fn keep_pictures_for(&mut self, limit: Duration) {
        self.pictures_serve_for = limit;
    }

    /// Begins to take a picture ahead. One that was taken before is taken again only where the page has changed, or where it
    /// has served for half of its time.
    pub(super) fn take_ahead(&mut self, secrets_in: Arc<SecretsIn<'static>>) {
        let known = self.ahead.take().filter(Ahead::is_worth_waiting);
        let hand = self.again();
        let half = self.pictures_serve_for / 2;
        let (begin, taking) = watch::channel(known.is_some());
        let task = tokio::spawn(async move {
            if let Some(mut known) = known
                && let Some(kept) = known.kept().await
                && kept.since.elapsed() < half
                && hand.is_still(kept).await
            {
                return Some(kept.clone());
            }
            begin.send_replace(false);
            hand.picture_at_rest(&*secrets_in, &begin).await
        });
        self.ahead = Some(Ahead { task: Some(task), taking, kept: None });
    }

    /// The picture that was taken ahead, if it still is what the page looks like and not too old; else `ahead` is given up.
    pub(super) async fn picture_ahead(&self, ahead: &mut Option<Ahead>) -> Option<Picture> {
        if let Some(kept) = ahead.as_mut()?.kept().await
            && kept.since.elapsed() < self.pictures_serve_for
            && self.is_still(kept).await
        {
            return Some(kept.picture.clone());
        }
        *ahead = None;
        None
    }

    /// Waits until the picture that was begun ahead has been taken. False if there will be none.
    pub async fn has_picture_ahead(&mut self) -> bool {
        match &mut self.ahead {
            Some(ahead) => ahead.ended().await.is_some(),
            None => false,
        }
    }

    async fn picture_at_rest(
        &self,
        secrets_in: &SecretsIn<'_>,
        taking: &watch::Sender<bool>,
    ) -> Option<Kept> {
        for _ in 0..ATTEMPTS {
            taking.send_replace(false);
            let documents = self.documents_at_rest().await?;
            taking.send_replace(true);
            let since = Instant::now();
            let picture = self.picture(false, secrets_in).await.ok()?;
            let kept = Kept { picture, since, documents };
            if self.is_still(&kept).await {
                return Some(kept);
            }
        }
        None
    }

    /// Waits until the page rests. Its frames are watched, and not waited for: one that is out of view has no frames of
    /// animation.
    async fn documents_at_rest(&self) -> Option<Vec<(String, u64)>> {
        let outermost = self.main_document().await.ok()?;
        let limit = json!([REST_LIMIT.as_millis() as u64]);
        let token: Option<u64> =
            self.script(&outermost, function::COMES_TO_REST, limit, READ_LIMIT).await.ok()?;
        let mut inner = self.documents();
        inner.retain(|document| *document != outermost);
        let tokens = self.scripts::<u64>(&inner, function::WATCH_REST, json!([]), OTHER_FRAMES_LIMIT).await;
        let mut documents = vec![(outermost, token?)];
        for (document, token) in inner.into_iter().zip(tokens) {
            documents.push((document, token.ok()?));
        }
        Some(documents)
    }

    /// True if the page has the same documents, and none of them has shown a sign of change.
    async fn is_still(&self, kept: &Kept) -> bool {
        let now = self.documents();
        if now.len() != kept.documents.len() {
            return false;
        }
        let now = &now;
        let asked = kept.documents.iter().map(async |(document, token)| {
            let rests: Result<bool, Failure> = if now.contains(document) {
                self.script(document, function::RESTS, json!([token]), OTHER_FRAMES_LIMIT).await
            } else {
                Ok(false)
            };
            matches!(rests, Ok(true))
        });
        futures_util::future::join_all(asked).await.into_iter().all(|rests| rests)
    }
}
