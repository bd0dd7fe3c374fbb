//! Which hosts may be reached (seed 002, `DOMAIN_BLOCKED`; CONTRACTS §3, policies).

use std::fmt;
use std::net::Ipv6Addr;

use thiserror::Error;
use url::{Host, Url};

/// Hosts that may be reached, each with its port or with any.
///
/// Names are compared as browsers do: in lower case, international ones in Punycode, numbers of an IPv4 address in any
/// notation. `*.example.com` is every host below `example.com`, at any depth, and not `example.com` itself. An empty list
/// allows nothing.
///
/// ```
/// # use capataz_executor::allowlist::Allowlist;
/// let allowlist = Allowlist::parse(["example.com", "*.example.org", "[::1]:8080"]).unwrap();
/// assert!(allowlist.allows("example.com", 443));
/// assert!(allowlist.allows("a.b.example.org", 80));
/// assert!(!allowlist.allows("example.org", 80));
/// assert!(!allowlist.allows("::1", 80));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    One(Host),
    /// Everything below this domain.
    Below(String),
}

/// An entry of an allowlist that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("allowlist[{index}]: {entry:?} {problem}")]
pub struct AllowlistError {
    pub index: usize,
    pub entry: String,
    pub problem: &'static str,
}

/// Why a URL may not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("{host} is not on the allowlist")]
    Host {
        /// Without the port, as in the URL.
        host: String,
    },
    /// Only http, https, ws and wss lead to a host.
    #[error("{scheme}: leads around the allowlist")]
    Scheme { scheme: String },
    #[error("this is not an absolute URL")]
    NoUrl,
}

impl Refusal {
    /// What `details.host` of a `DOMAIN_BLOCKED` says: the host, or the scheme with its colon.
    pub fn host(&self) -> String {
        match self {
            Self::Host { host } => host.clone(),
            Self::Scheme { scheme } => format!("{scheme}:"),
            Self::NoUrl => String::new(),
        }
    }
}

impl Allowlist {
    /// Reads entries such as `example.com`, `*.example.com`, `127.0.0.1:8080`, `[::1]:80`.
    ///
    /// # Errors
    /// All entries that cannot be read.
    pub fn parse<E: AsRef<str>>(entries: impl IntoIterator<Item = E>) -> Result<Self, Vec<AllowlistError>> {
        let mut read = Vec::new();
        let mut errors = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            match Entry::parse(entry.as_ref()) {
                Ok(entry) => read.push(entry),
                Err(problem) => {
                    errors.push(AllowlistError { index, entry: entry.as_ref().to_owned(), problem });
                }
            }
        }
        if errors.is_empty() { Ok(Self { entries: read }) } else { Err(errors) }
    }

    /// True if this host, a name or an address without brackets, may be reached at this port.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        parse_host(host).is_some_and(|host| self.allows_host(&host, port))
    }

    /// Checks that this URL may be reached.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check_url(&self, url: &str) -> Result<(), Refusal> {
        let url = Url::parse(url).map_err(|_| Refusal::NoUrl)?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(Refusal::Scheme { scheme: url.scheme().to_owned() });
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refusal::NoUrl);
        };
        if self.allows_host(&host.to_owned(), port) {
            return Ok(());
        }
        Err(Refusal::Host { host: host.to_string() })
    }

    fn allows_host(&self, host: &Host, port: u16) -> bool {
        self.entries.iter().any(|entry| entry.allows(host, port))
    }
}

/// The entries, in the form in which they are compared, with commas between them.
impl fmt::Display for Allowlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{entry}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::One(host) => write!(f, "{host}")?,
            Hosts::Below(domain) => write!(f, "*.{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Entry {
    fn parse(entry: &str) -> Result<Self, &'static str> {
        let (host, port) = split_port(entry)?;
        let hosts = match host.strip_prefix("*.") {
            Some(domain) => match parse_host(domain) {
                Some(Host::Domain(domain)) => Hosts::Below(domain),
                _ => return Err("has a wildcard before something that is not a domain"),
            },
            None => Hosts::One(parse_host(host).ok_or("is not a host")?),
        };
        Ok(Self { hosts, port })
    }

    fn allows(&self, host: &Host, port: u16) -> bool {
        let host_fits = match (&self.hosts, host) {
            (Hosts::One(allowed), host) => allowed == host,
            (Hosts::Below(domain), Host::Domain(host)) => host
                .strip_suffix(domain.as_str())
                .and_then(|front| front.strip_suffix('.'))
                .is_some_and(|front| !front.is_empty()),
            (Hosts::Below(_), _) => false,
        };
        host_fits && self.port.is_none_or(|allowed| allowed == port)
    }
}

/// The host, without brackets, and the port.
fn split_port(entry: &str) -> Result<(&str, Option<u16>), &'static str> {
    if entry.parse::<Ipv6Addr>().is_ok() {
        return Ok((entry, None));
    }
    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("has a bracket that is never closed")?;
            host.parse::<Ipv6Addr>().map_err(|_| "has something in brackets that is not an IPv6 address")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("has something after the bracket that is not a port"),
            }
        }
        None => match entry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (entry, None),
        },
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits_only = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(0) | Err(_) => Err("has no port from 1 to 65535 after the colon"),
        Ok(_) if !digits_only => Err("has no port from 1 to 65535 after the colon"),
        Ok(number) => Ok((host, Some(number))),
    }
}

/// The host as browsers write it; `None` if the text is not a host.
fn parse_host(host: &str) -> Option<Host> {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return Some(Host::Ipv6(address));
    }
    let valid = Host::parse(host).ok()?;
    // URLs may hold a `*`, but host names may not.
    let odd = matches!(&valid, Host::Domain(domain) if domain.contains('*') || domain.is_empty());
    (!odd).then_some(valid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(entries: &[&str], url: &str, expected: Result<(), &str>) {
        let allowlist = Allowlist::parse(entries).unwrap();
        let verdict = allowlist.check_url(url).map_err(|refusal| refusal.host());
        assert_eq!(verdict, expected.map_err(str::to_owned), "{entries:?} {url}");
    }

    #[test]
    fn hosts_are_compared_as_browsers_write_them() {
        check(&["Example.COM"], "https://example.com/a", Ok(()));
        check(&["bücher.example"], "http://xn--bcher-kva.example/", Ok(()));
        check(&["127.0.0.1"], "http://0x7f.1:9/", Ok(()));
        check(&["[0:0::1]:80"], "http://[::1]/", Ok(()));
        check(&["::1"], "ws://[::1]:99/", Ok(()));
        check(&["[::ffff:1.2.3.4]"], "http://1.2.3.4/", Err("1.2.3.4"));
        check(&["example.com"], "https://user:word@example.com:8443/", Ok(()));
        check(&["example.com"], "https://example.com@evil.example/", Err("evil.example"));
        check(&["example.com"], "https://example.com.evil.example/", Err("example.com.evil.example"));
        check(&["example.com"], "https://example.com./", Err("example.com."));
        check(&["example.com"], "https:\\\\evil.example\\example.com", Err("evil.example"));
        check(&[], "https://example.com/", Err("example.com"));
    }

    #[test]
    fn a_wildcard_is_every_host_below_and_not_the_domain() {
        check(&["*.example.com"], "https://a.b.example.com/", Ok(()));
        check(&["*.example.com"], "https://example.com/", Err("example.com"));
        check(&["*.example.com"], "https://badexample.com/", Err("badexample.com"));
        check(&["*.example.com:444"], "https://a.example.com:444/", Ok(()));
        check(&["*.example.com:444"], "https://a.example.com/", Err("a.example.com"));
    }

    #[test]
    fn a_port_is_that_port_and_no_port_is_any() {
        check(&["h:80"], "http://h/", Ok(()));
        check(&["h:80"], "https://h/", Err("h"));
        check(&["h:443"], "wss://h/", Ok(()));
        check(&["h"], "http://h:1/", Ok(()));
    }

    #[test]
    fn what_leads_to_no_host_is_refused_by_its_scheme() {
        for scheme in
            ["data", "blob", "javascript", "file", "chrome", "view-source", "about", "ftp", "filesystem"]
        {
            let url = format!("{scheme}:http://example.com/");
            check(&["example.com"], &url, Err(&format!("{scheme}:")));
        }
        check(&["example.com"], "/path", Err(""));
        check(&["example.com"], "http://", Err(""));
    }

    #[test]
    fn every_entry_that_is_none_is_named() {
        let entries = [
            "ok.example",
            "",
            "*",
            "*.",
            "*.1.2.3.4",
            "a b",
            "h:",
            "h:0",
            "h:65536",
            "h:+1",
            "h:1:2",
            "[::1",
            "[h]:1",
            "[::1]x",
            "http://h",
            "h/path",
            "a.*.b",
            "*.*.b",
            "u@h",
        ];
        let errors = Allowlist::parse(entries).unwrap_err();
        let named: Vec<&str> = errors.iter().map(|error| error.entry.as_str()).collect();
        assert_eq!(named, entries[1..]);
    }

    #[test]
    fn it_shows_what_is_compared() {
        let allowlist = Allowlist::parse(["EXAMPLE.com:80", "*.B.c", "::1", "[::1]:8"]).unwrap();
        assert_eq!(allowlist.to_string(), "example.com:80, *.b.c, [::1], [::1]:8");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(entry in ".{0,40}", url in ".{0,60}", host in ".{0,40}", port: u16) {
            if let Ok(allowlist) = Allowlist::parse([&entry]) {
                let _ = allowlist.check_url(&url);
                allowlist.allows(&host, port);
            }
        }

        #[test]
        fn what_is_shown_reads_as_the_same(entry in "(\\*\\.)?[a-z0-9.-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(allowlist) = Allowlist::parse([&entry]) {
                prop_assert_eq!(&Allowlist::parse([allowlist.to_string()]).unwrap(), &allowlist);
            }
        }

        #[test]
        fn a_url_is_allowed_exactly_where_its_host_and_port_are(
            host in "[a-z]{1,3}(\\.[a-z]{1,3}){0,2}", domain in "[a-z]{1,2}\\.[a-z]{1,2}", port in 1_u16..,
            wildcard: bool,
        ) {
            let entry = if wildcard { format!("*.{domain}") } else { domain.clone() };
            let allowlist = Allowlist::parse([entry]).unwrap();
            let expected = if wildcard { host.ends_with(&format!(".{domain}")) } else { host == domain };
            prop_assert_eq!(allowlist.allows(&host, port), expected);
            let url = format!("http://{host}:{port}/");
            prop_assert_eq!(allowlist.check_url(&url).is_ok(), expected);
        }
    }
}
