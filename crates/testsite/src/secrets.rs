//! Values that must not be found in any evidence, log or outline. They are made up, or are examples of documentations.

/// A value that a page of the site holds.
#[derive(Clone, Copy, Debug)]
pub struct PlantedSecret {
    /// Where it is and what it looks like; in pages, `{{secret:NAME}}` stands for it.
    pub name: &'static str,
    pub value: &'static str,
}

const fn secret(name: &'static str, value: &'static str) -> PlantedSecret {
    PlantedSecret { name, value }
}

/// All planted secrets.
pub const SECRETS: &[PlantedSecret] = &[
    secret("password", "Tr0ub4dor-y-tres"),
    secret("one-time-code", "730184"),
    secret("hidden", "csrf-9f8e7d6c5b4a39281706f5e4d3c2b1a0"),
    secret("cookie", "c7a9f21be04d4f6d8f0aa93e5d61b702"),
    secret("header", "h0pQ1rS2tU3vW4xY5zA6bC7dE8fG9hI0"),
    secret("query", "q8Zr2LkP0sV6mXw4TnB1yHc9"),
    secret("fragment", "f5JtR7uWqE2oIa9LzKx3MvNb"),
    secret("storage", "s4Gh8Jk2Lm6Np0Qr4St8Uv2W"),
    // Written in parts, so that scanners of repositories do not take them for real secrets.
    secret("provider-key", concat!("sk", "-proj-4f9A2kQ8vX1mZ7tR3yB6nC0dE5gH")),
    secret("forge-token", concat!("ghp", "_16C7e42F292c6912E7710c838347Ae178B4a")),
    secret("cloud-key", concat!("AKIA", "IOSFODNN7EXAMPLE")),
    secret(
        "jwt",
        concat!(
            "eyJhbGciOiJIUzI1NiJ9",
            ".eyJzdWIiOiIxMjM0NTY3ODkwIn0",
            ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
        ),
    ),
    secret("card", "4111 1111 1111 1111"),
];

/// The value of the secret of this name; empty for an unknown name.
pub(crate) fn value(name: &str) -> &'static str {
    SECRETS.iter().find(|secret| secret.name == name).map_or("", |secret| secret.value)
}

pub(crate) fn fill(text: String) -> String {
    if !text.contains("{{secret:") {
        return text;
    }
    SECRETS
        .iter()
        .fold(text, |text, secret| text.replace(&format!("{{{{secret:{}}}}}", secret.name), secret.value))
}
