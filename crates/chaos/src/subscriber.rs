//! A subscriber: writes down every event that it is given, and resumes behind the last one that it has written down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use capataz_client::{Client, Delivery, EventStream, v1};
use prost::Message;

use crate::Outcome;
use crate::journal::{self, Journal};
use crate::records::SubscriberRecord;
use crate::workloads::CLIENT_LABEL;

/// What a subscriber is told to do.
#[derive(Clone, Debug, clap::Args)]
pub struct SubscriberOptions {
    #[arg(long)]
    addr: String,
    #[arg(long)]
    journal: PathBuf,
    /// Only the runs of this client
    #[arg(long)]
    client: Option<String>,
    /// Only this session and its asks
    #[arg(long)]
    session: Option<String>,
    /// Longest life of one stream
    #[arg(long)]
    life_ms: u64,
}

/// Events that are written together at most.
const BATCH: usize = 64;
/// How long a batch waits for one more event.
const LINGER: Duration = Duration::from_millis(10);

/// Subscribes until the standard input is closed, or `calm` is said there and the stream has lived on for a while.
///
/// # Errors
/// The journal cannot be used, or the daemon refuses the subscription.
pub async fn subscriber(options: SubscriberOptions) -> Outcome<()> {
    let mut cursor = Bytes::new();
    for record in journal::read::<SubscriberRecord>(&options.journal)? {
        match record {
            SubscriberRecord::Event { cursor: behind, .. } | SubscriberRecord::Dropped { cursor: behind } => {
                cursor = behind.into();
            }
        }
    }
    let journal = Journal::open(&options.journal)?;
    let client = Client::lazy(&options.addr)?;
    let mut calm = super::children::told_on_stdin("calm")?;
    loop {
        let labels: BTreeMap<String, String> =
            options.client.iter().map(|client| (CLIENT_LABEL.to_owned(), client.clone())).collect();
        let session = options.session.clone();
        let filter = v1::EventFilter { labels, session, ..v1::EventFilter::default() };
        let request = v1::SubscribeRequest {
            cursor: cursor.clone(),
            filter: Some(filter),
            progress: options.client.is_none() && options.session.is_none(),
            max_batch: fastrand::u32(0..32),
            ..v1::SubscribeRequest::default()
        };
        let mut stream = client.subscribe(request);
        // Once it is calm, a stream is left alone.
        let is_calm = *calm.borrow();
        let life = if is_calm { 3_600_000 } else { fastrand::u64(options.life_ms / 10..=options.life_ms) };
        let drop_at = tokio::time::sleep(Duration::from_millis(life));
        tokio::pin!(drop_at);
        loop {
            tokio::select! {
                first = stream.next() => {
                    let mut events = Vec::new();
                    take(first, &mut events)?;
                    while events.len() < BATCH {
                        match tokio::time::timeout(LINGER, stream.next()).await {
                            Ok(delivery) => take(delivery, &mut events)?,
                            Err(_) => break,
                        }
                    }
                    journal.write_all(&events).await?;
                }
                () = &mut drop_at => break,
                changed = calm.changed(), if !is_calm => {
                    changed?;
                    break;
                }
            }
        }
        cursor = left(&stream, &journal).await?;
    }
}

/// Leaves a stream at once, with what it has received and not yet delivered; where to resume.
async fn left(stream: &EventStream, journal: &Journal) -> Outcome<Bytes> {
    let cursor = stream.cursor().clone();
    journal.write(&SubscriberRecord::Dropped { cursor: cursor.to_vec() }).await?;
    Ok(cursor)
}

fn take(
    delivery: Option<Result<Delivery, capataz_client::ClientError>>,
    events: &mut Vec<SubscriberRecord>,
) -> Outcome<()> {
    match delivery {
        Some(Ok(Delivery::Event { run_id, event, cursor, .. })) => {
            let (seq, hash) = (event.seq, hash(&event));
            events.push(SubscriberRecord::Event { run: run_id, seq, hash, cursor: cursor.to_vec() });
            Ok(())
        }
        Some(Ok(Delivery::CaughtUp | Delivery::Progress(_) | Delivery::Reconnecting { .. })) => Ok(()),
        Some(Ok(Delivery::Damaged(damaged))) => Err(format!("events are damaged: {damaged:?}").into()),
        Some(Err(error)) => Err(format!("the subscription was refused: {error}").into()),
        None => Err("the subscription has ended".into()),
    }
}

/// Tells an event from another one with the same number.
pub(crate) fn hash(event: &v1::Event) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(&event.encode_to_vec());
    hasher.finish()
}
