//! Where the configuration's layers are read: the file and the environment.
//!
//! `figment` has both as features, and with them a second TOML parser and a parser for the values of variables. The
//! parser that spec files are read with does for the first; the second is not wanted: each of the variables is a text.

use figment::providers::Format;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use serde::de::DeserializeOwned;

/// The name of the layer of variables, where values say where they came from.
pub(super) const ENVIRONMENT: &str = "environment variables";

/// The keys that have a variable, and its name.
const VARIABLES: &[(&str, &str)] =
    &[("listen", "CAPATAZ_LISTEN"), ("data_dir", "CAPATAZ_DATA_DIR"), ("specs_dir", "CAPATAZ_SPECS_DIR")];

/// A file in TOML.
#[derive(Debug)]
pub(super) struct Toml;

impl Format for Toml {
    type Error = toml::de::Error;

    const NAME: &'static str = "TOML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Self::Error> {
        toml::from_str(text)
    }
}

/// The variables that are set.
#[derive(Debug)]
pub(super) struct Environment(Vec<(&'static str, String)>);

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "here the configuration comes in")]
    pub(super) fn of_this_process() -> Self {
        Self::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self(VARIABLES.iter().filter_map(|(key, name)| Some((*key, variable(name)?))).collect())
    }
}

impl Provider for Environment {
    fn metadata(&self) -> Metadata {
        Metadata::named(ENVIRONMENT).interpolater(|_, keys| {
            let name = |key: &&str| VARIABLES.iter().find(|(known, _)| known == key).map(|(_, name)| *name);
            keys.iter().filter_map(name).collect::<Vec<_>>().join(".")
        })
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let dict: Dict =
            self.0.iter().map(|(key, text)| ((*key).to_owned(), Value::from(text.clone()))).collect();
        Ok(Profile::Default.collect(dict))
    }
}

#[cfg(test)]
mod tests {
    use figment::Figment;
    use figment::providers::Format as _;
    use serde::Deserialize;

    use super::{ENVIRONMENT, Environment, Toml};

    #[derive(Debug, Deserialize)]
    struct Settings {
        listen: String,
        data_dir: String,
    }

    #[test]
    fn variables_stand_above_the_file_and_each_value_knows_its_layer() {
        let variables = |name: &str| (name == "CAPATAZ_LISTEN").then(|| "127.0.0.1:0".to_owned());
        let layers = Figment::new()
            .merge(Toml::string("listen = \"127.0.0.1:1\"\ndata_dir = \"there\""))
            .merge(Environment::read(variables));
        let settings: Settings = layers.extract().unwrap();
        assert_eq!((settings.listen.as_str(), settings.data_dir.as_str()), ("127.0.0.1:0", "there"));
        assert_eq!(layers.find_metadata("listen").unwrap().name, ENVIRONMENT);
        assert_eq!(layers.find_metadata("data_dir").unwrap().name, "TOML source string");
    }

    #[test]
    fn a_variable_is_a_text_whatever_it_looks_like() {
        let variables = |name: &str| match name {
            "CAPATAZ_DATA_DIR" => Some("2026".to_owned()),
            "CAPATAZ_LISTEN" => Some("[::1]:0".to_owned()),
            _ => None,
        };
        let settings: Settings = Figment::from(Environment::read(variables)).extract().unwrap();
        assert_eq!((settings.listen.as_str(), settings.data_dir.as_str()), ("[::1]:0", "2026"));
    }

    #[test]
    fn an_error_names_the_line_of_the_file() {
        let error =
            Figment::from(Toml::string("listen = \"a\"\ndata_dir = \n")).extract::<Settings>().unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
