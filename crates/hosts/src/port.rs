//! What hosts need of the daemon around them.

use std::io;
use std::sync::Arc;

use capataz_contracts::v1::{connect_request, connect_response};
use tokio::sync::mpsc;

/// Reaches a shard as workers do.
pub trait Connect: Send + Sync + 'static {
    type Speaker: Speak;

    /// A new connection, whose first frame has to be a hello. `slots` bounds what may wait for its reader. The shard
    /// ends the connection by closing the receiver.
    fn connect(
        &self,
        slots: usize,
    ) -> impl Future<Output = (mpsc::Receiver<connect_response::Frame>, Self::Speaker)> + Send;
}

/// Speaks on one connection, which ends when this is dropped.
pub trait Speak: Send + Sync + 'static {
    /// Waits while the shard is busy. Whether the shard is still there.
    fn say(&self, frame: connect_request::Frame) -> impl Future<Output = bool> + Send;
}

/// Unix milliseconds, by the clock that the shard decides by.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Where the values of `${secret:NAME}` come from.
///
/// Asked just before a secret is used, on the thread that uses it: answers come from memory or a small file. Every
/// `Fn(&str) -> Option<String>` is one.
pub trait SecretResolver: Send + Sync {
    /// The value of the secret; nothing where no secret has that name.
    ///
    /// # Errors
    /// There may be one, and it cannot be read now.
    fn resolve(&self, name: &str) -> io::Result<Option<String>>;
}

impl<F: Fn(&str) -> Option<String> + Send + Sync> SecretResolver for F {
    fn resolve(&self, name: &str) -> io::Result<Option<String>> {
        Ok(self(name))
    }
}
