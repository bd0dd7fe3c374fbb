//! The texts of the outputs, in English and in Spanish.

/// The language of an output's texts. Ids, names and surfaces are the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Language {
    #[default]
    English,
    Spanish,
}

/// A noun in English and in Spanish, each for one thing and for several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noun([[&'static str; 2]; 2]);

pub(super) const PATH: Noun = Noun([["path", "paths"], ["archivo", "archivos"]]);
pub(super) const SIGNAL: Noun = Noun([["signal", "signals"], ["señal", "señales"]]);
pub(super) const SOURCE: Noun = Noun([["source", "sources"], ["fuente", "fuentes"]]);
pub(super) const DOMAIN: Noun = Noun([["domain", "domains"], ["dominio", "dominios"]]);
pub(super) const FEATURE: Noun = Noun([["feature", "features"], ["funcionalidad", "funcionalidades"]]);
pub(super) const PACKAGE: Noun = Noun([["package", "packages"], ["paquete", "paquetes"]]);
pub(super) const PROGRAM: Noun = Noun([["program", "programs"], ["programa", "programas"]]);
pub(super) const ROUTE: Noun = Noun([["route", "routes"], ["ruta", "rutas"]]);
pub(super) const COMMAND: Noun = Noun([["command", "commands"], ["comando", "comandos"]]);
pub(super) const INTERFACE: Noun = Noun([["interface", "interfaces"], ["interfaz", "interfaces"]]);

impl Language {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "en" => Some(Self::English),
            "es" => Some(Self::Spanish),
            _ => None,
        }
    }

    /// A number of things: `1 path`, `2 archivos`.
    pub(super) fn count(self, number: impl Into<u128>, noun: Noun) -> String {
        let number = number.into();
        let [one, several] = self.of(noun);
        format!("{number} {}", if number == 1 { one } else { several })
    }

    /// The noun for one thing.
    pub(super) fn one(self, noun: Noun) -> &'static str {
        let [one, _] = self.of(noun);
        one
    }

    fn of(self, Noun([english, spanish]): Noun) -> [&'static str; 2] {
        match self {
            Self::English => english,
            Self::Spanish => spanish,
        }
    }

    /// One of two texts, with the values in the places of `{}` in their order.
    pub(super) fn say(self, english: &str, spanish: &str, values: &[&str]) -> String {
        let template = match self {
            Self::English => english,
            Self::Spanish => spanish,
        };
        let mut values = values.iter();
        let mut parts = template.split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text.push_str(values.next().copied().unwrap_or_default());
            text.push_str(part);
        }
        text
    }
}
