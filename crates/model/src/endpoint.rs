//! Where a model is asked, and with what key.

use std::fmt;

use url::{Host, Url};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Chat completions, as OpenAI has them and many servers speak them: `POST {base_url}/chat/completions`.
    OpenAi,
    /// Messages, as Anthropic has them: `POST {base_url}/v1/messages`.
    Anthropic,
}

/// Where a model is asked, and how.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub protocol: Protocol,
    /// `https`, or `http` on this machine. Without user, query and fragment.
    pub base_url: String,
    /// The model, as the server calls it.
    pub model: String,
    /// Tokens of an answer at most; absent: as the server has it, and 4,096 in the protocol `anthropic`.
    pub max_tokens: Option<u32>,
    /// 0 to 2, and in the protocol `anthropic` to 1; absent: as the server has it.
    pub temperature: Option<f64>,
}

/// Something that is wrong with an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field.
    pub field: &'static str,
    pub message: String,
}

impl Endpoint {
    /// The address that requests go to.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn check(&self) -> Result<Url, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field, message: &str| problems.push(Problem { field, message: message.to_owned() });
        if self.model.trim().is_empty() {
            wrong("model", "the name of a model");
        }
        if self.max_tokens == Some(0) {
            wrong("max_tokens", "at least 1");
        }
        let (warmest, range) = match self.protocol {
            Protocol::OpenAi => (2.0, "from 0 to 2"),
            Protocol::Anthropic => (1.0, "from 0 to 1 in this protocol"),
        };
        if self.temperature.is_some_and(|value| !(0.0..=warmest).contains(&value)) {
            wrong("temperature", range);
        }
        let address = match Url::parse(&self.base_url) {
            Ok(url) => {
                for message in wrong_with(&url) {
                    wrong("base_url", message);
                }
                Some(self.address(url))
            }
            Err(error) => {
                wrong("base_url", &format!("an address such as https://host/v1: {error}"));
                None
            }
        };
        match address {
            Some(address) if problems.is_empty() => Ok(address),
            _ => Err(problems),
        }
    }

    fn address(&self, mut url: Url) -> Url {
        let path = match self.protocol {
            Protocol::OpenAi => "chat/completions",
            Protocol::Anthropic => "v1/messages",
        };
        let whole = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }
}

fn wrong_with(url: &Url) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    match url.scheme() {
        "https" => {}
        "http" if is_here(url) => {}
        "http" => wrong.push("https: a key does not travel in clear text, but on this machine"),
        _ => wrong.push("https, or http on this machine"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        wrong.push("no user and no password: the key has its own place");
    }
    if url.query().is_some() || url.fragment().is_some() {
        wrong.push("neither a query nor a fragment");
    }
    wrong
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// What a server knows its caller by. It shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// A text that cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to 4,096 visible ASCII characters: no line breaks, quotes and backslashes")]
pub struct NotAKey;

impl Key {
    /// The most bytes of a key.
    pub const MAX: usize = 4_096;

    /// # Errors
    /// It is empty or too long, or has characters that a header cannot have, spaces and line breaks among them, or that JSON
    /// writes in another way: a server that says the key back has to be understood.
    pub fn new(text: String) -> Result<Self, NotAKey> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let fits = (1..=Self::MAX).contains(&text.len()) && text.bytes().all(plain);
        if fits { Ok(Self(text)) } else { Err(NotAKey) }
    }

    /// The key itself, for those who take it out of what they show.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn endpoint(protocol: Protocol, base_url: &str) -> Endpoint {
        Endpoint {
            protocol,
            base_url: base_url.to_owned(),
            model: "m".to_owned(),
            max_tokens: None,
            temperature: None,
        }
    }

    #[test]
    fn requests_go_to_the_path_of_the_protocol_under_the_base() {
        let to = |protocol, base: &str| endpoint(protocol, base).check().unwrap().to_string();
        assert_eq!(to(Protocol::OpenAi, "https://a.example/v1"), "https://a.example/v1/chat/completions");
        assert_eq!(to(Protocol::OpenAi, "http://[::1]:9/v1/"), "http://[::1]:9/v1/chat/completions");
        assert_eq!(to(Protocol::Anthropic, "https://a.example"), "https://a.example/v1/messages");
    }

    #[test]
    fn all_that_is_wrong_with_an_endpoint_is_told() {
        let wrong = |base: &str| -> Vec<&'static str> {
            let problems = endpoint(Protocol::OpenAi, base).check().unwrap_err();
            problems.into_iter().map(|problem| problem.field).collect()
        };
        assert_eq!(wrong("not an address"), ["base_url"]);
        assert_eq!(wrong("ftp://a.example"), ["base_url"]);
        assert_eq!(wrong("http://a.example"), ["base_url"]);
        assert_eq!(wrong("http://127.0.0.1.example"), ["base_url"]);
        assert_eq!(wrong("https://me:secret@a.example/?key=1#x"), ["base_url", "base_url"]);
        let all = Endpoint {
            model: " ".to_owned(),
            max_tokens: Some(0),
            temperature: Some(f64::NAN),
            ..endpoint(Protocol::OpenAi, "gopher://a")
        };
        let fields: Vec<_> = all.check().unwrap_err().into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["model", "max_tokens", "temperature", "base_url"]);
        let warm = |protocol| Endpoint { temperature: Some(1.5), ..endpoint(protocol, "https://a.example") };
        assert!(warm(Protocol::OpenAi).check().is_ok());
        assert_eq!(warm(Protocol::Anthropic).check().unwrap_err().len(), 1);
    }

    #[test]
    fn a_key_is_one_line_of_visible_characters_and_shows_itself_to_nobody() {
        for text in ["", "a b", "sk-1\r\nhost: evil", "sk-1\n", "sk-é", "sk\u{0}", "sk\"1", "sk\\1"] {
            assert_eq!(Key::new(text.to_owned()), Err(NotAKey), "{text:?}");
        }
        assert!(Key::new("x".repeat(4_097)).is_err());
        assert_eq!(format!("{:?}", Key::new("sk-1".to_owned()).unwrap()), "[redacted]");
    }
}
