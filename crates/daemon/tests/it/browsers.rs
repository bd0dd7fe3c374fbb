//! What the daemon asks of its surroundings before it opens any browser.

use capataz_daemon::{Config, Daemon, DaemonError};
use capataz_hosts::browsers::BrowsersError;

use crate::support::data_dir;

#[tokio::test]
async fn a_key_for_storage_states_that_is_not_there_keeps_the_daemon_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    let config = || {
        let mut config = Config::embedded(data_dir(&folder));
        config.secrets_dir = Some(secrets.clone());
        config.browser.storage_key = Some("STATES".to_owned());
        config
    };
    let refused = Daemon::start(config()).await.map(|_| ()).unwrap_err();
    let name = match &refused {
        DaemonError::Browsers(BrowsersError::NoStorageKey { name }) => Some(name.as_str()),
        _ => None,
    };
    assert_eq!(name, Some("STATES"), "{refused}");

    std::fs::write(secrets.join("STATES"), "a key").unwrap();
    Daemon::start(config()).await.unwrap().shutdown().await;
}
