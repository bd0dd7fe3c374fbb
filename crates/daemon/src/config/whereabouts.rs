//! Where the daemon of a folder is: what others need to know of its configuration.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Format as _, Serialized};
use serde::Deserialize;

use super::document::Document;
use super::layers::{Environment, Toml};
use super::problem::{Problem, in_order};
use super::{Config, ConfigError, FILE, FILE_BYTES, address, default_data_dir, default_listen, text};

/// What its file may be written by, beside its owner and their group: nobody.
const OTHERS_MAY_WRITE: u32 = 0o002;

/// By which a daemon is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub data_dir: PathBuf,
    /// Where it would listen; `None` where it takes any free port, or where the address is none.
    pub listen: Option<SocketAddr>,
}

/// Of all that the file says, the keys that are needed: whatever else it says, right or wrong, moves no daemon.
#[derive(Debug, Deserialize)]
struct Keys {
    #[serde(default = "default_listen")]
    listen: String,
    #[serde(default = "default_data_dir")]
    data_dir: PathBuf,
}

impl Whereabouts {
    /// Of the daemon that the `capataz.toml` of the working folder is of; `None` where no such file is.
    ///
    /// # Errors
    /// The file cannot be read, or does not say where the daemon is. Or it belongs to another user, or everybody may write it: then
    /// strangers would say where somebody's texts go.
    pub fn here() -> Result<Option<Self>, ConfigError> {
        Self::of_file(Path::new(FILE), || Figment::from(Environment::of_this_process()))
    }

    fn of_file(file: &Path, environment: impl FnOnce() -> Figment) -> Result<Option<Self>, ConfigError> {
        let Ok(metadata) = fs::metadata(file) else { return Ok(None) };
        let wrong = |message: String| {
            let file = Some(file.display().to_string());
            ConfigError::Invalid(vec![Problem { file, message, ..Problem::default() }])
        };
        let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
        if !is_ours || metadata.permissions().mode() & OTHERS_MAY_WRITE != 0 {
            return Err(wrong("it belongs to another user, or everybody may write it".to_owned()));
        }
        let text = text::read(file, FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
        let document = Document::parse(file.display().to_string(), &text).map_err(ConfigError::Invalid)?;
        let problems = document.read_what_can_be::<Keys>().problems;
        if !problems.is_empty() {
            return Err(ConfigError::Invalid(in_order(problems)));
        }
        let file_says = Figment::from(Serialized::default("listen", default_listen()))
            .merge(Serialized::default("data_dir", default_data_dir()))
            .merge(Toml::string(document.text()));
        let is_of_file =
            |key: &str, above: &Figment| !above.contains(key) && document.keys().any(|there| there == key);
        let above = environment();
        let keys: Keys = file_says.merge(&above).extract().map_err(|error| wrong(error.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let data_dir = match is_of_file("data_dir", &above) {
            true => folder.join(keys.data_dir),
            false => keys.data_dir,
        };
        Ok(Some(Self { data_dir, listen: known(&keys.listen) }))
    }
}

impl From<&Config> for Whereabouts {
    fn from(config: &Config) -> Self {
        Self { data_dir: config.data_dir.clone(), listen: known(&config.listen) }
    }
}

/// A place of this machine, and not any free port.
fn known(listen: &str) -> Option<SocketAddr> {
    address(listen).ok().filter(|address| address.ip().is_loopback() && address.port() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, mode: u32) -> Result<Option<Whereabouts>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capataz.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let found = Whereabouts::of_file(&file, Figment::new).map_err(|error| error.to_string());
        let is_within = |found: &Whereabouts| found.data_dir.strip_prefix(folder.path()).map(Path::to_owned);
        found.map(|found| {
            found.map(|found| Whereabouts { data_dir: is_within(&found).unwrap_or_default(), ..found })
        })
    }

    #[test]
    fn two_keys_say_where_it_is_whatever_else_is_wrong() {
        let wrong =
            "listen = \"localhost:7500\"\ndata_dir = \"data\"\nlisten_to = 7\n[[agents]]\nname = \"a\"\n";
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], 7500)));
        assert_eq!(of(wrong, 0o644), Ok(Some(Whereabouts { data_dir: "data".into(), listen })));
        for listen in ["127.0.0.1:0", "192.0.2.7:80", "nowhere"] {
            let found = of(&format!("listen = \"{listen}\"\ndata_dir = \"data\"\n"), 0o600).unwrap().unwrap();
            assert_eq!(found.listen, None, "{listen}");
        }
    }

    #[test]
    fn a_file_that_does_not_say_it_is_told_and_so_is_one_that_everybody_may_write() {
        assert_eq!(Whereabouts::of_file(Path::new("/nowhere/capataz.toml"), Figment::new).unwrap(), None);
        for (text, mode, told) in [
            ("listen = 7\n", 0o644, "listen: here is a number; expected is a string"),
            ("listen = \n", 0o644, "not TOML"),
            ("listen = \"127.0.0.1:7411\"\n", 0o666, "everybody may write it"),
        ] {
            let error = of(text, mode).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
