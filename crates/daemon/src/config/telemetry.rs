//! Where runs are sent as traces.

use std::collections::BTreeMap;

use capataz_hosts::commands::{filled, wrong_reference};
use capataz_hosts::port::SecretResolver;
use capataz_telemetry::Endpoint;
use serde::Deserialize;

/// What is said of headers for nobody.
const MISSING: &str = "is missing, and without it nothing is sent";

/// Where the daemon tells of itself and of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The collector that spans are sent to, by OTLP over gRPC, such as `http://127.0.0.1:4317`; absent: none are sent.
    pub otlp_endpoint: Option<String>,
    /// What the collector wants to know of who sends, such as `authorization`. Values may refer to secrets.
    pub headers: BTreeMap<String, String>,
    /// What is said of this daemon, beside `service.name`, which is `capataz` unless it is among these.
    pub resource: BTreeMap<String, String>,
}

impl TelemetryConfig {
    /// All that is wrong with it.
    pub(super) fn check(&self) -> Vec<String> {
        let wrong = |(name, value): (&String, &String)| {
            Some(format!("telemetry.headers.{name}: {}", wrong_reference(value)?))
        };
        let mut problems: Vec<String> = self.headers.iter().filter_map(wrong).collect();
        match &self.otlp_endpoint {
            Some(address) => {
                // Values are not looked at before the secrets in them are known.
                let names: Vec<_> = self.headers.keys().map(|name| (name.clone(), String::new())).collect();
                if let Err(error) = Endpoint::new(address, &names, Vec::new()) {
                    problems.push(format!("telemetry.otlp_endpoint: {error}"));
                }
            }
            None if self.headers.is_empty() && self.resource.is_empty() => {}
            None => problems.push(format!("telemetry.otlp_endpoint: {MISSING}")),
        }
        problems
    }

    /// The collector, where there is one.
    ///
    /// # Errors
    /// A secret is not known, or what it makes of a header is none.
    pub(crate) fn endpoint(&self, secrets: &dyn SecretResolver) -> Result<Option<Endpoint>, String> {
        let Some(address) = &self.otlp_endpoint else { return Ok(None) };
        let header = |(name, value): (&String, &String)| match filled(value, secrets) {
            Ok(value) => Ok((name.clone(), value)),
            Err(problem) => Err(format!("telemetry.headers.{name}: {problem}")),
        };
        let headers = self.headers.iter().map(header).collect::<Result<Vec<_>, _>>()?;
        let mut resource = self.resource.clone();
        resource.entry("service.name".to_owned()).or_insert_with(|| "capataz".to_owned());
        resource.entry("service.version".to_owned()).or_insert_with(|| env!("CARGO_PKG_VERSION").to_owned());
        let endpoint = Endpoint::new(address, &headers, resource.into_iter().collect());
        endpoint.map(Some).map_err(|error| format!("telemetry: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        toml::from_str::<TelemetryConfig>(text).unwrap().check()
    }

    #[test]
    fn what_is_wrong_with_a_collector_is_told_by_its_key_and_without_values() {
        assert_eq!(check(""), [] as [&str; 0]);
        assert_eq!(check("otlp_endpoint = \"https://collector.example:4317\""), [] as [&str; 0]);
        let address = "telemetry.otlp_endpoint: is not an address such as http://127.0.0.1:4317";
        assert_eq!(check("otlp_endpoint = \"http://user:s3cr3t@127.0.0.1:4317\""), [address]);
        assert_eq!(
            check("headers = { authorization = \"s3cr3t\" }"),
            ["telemetry.otlp_endpoint: is missing, and without it nothing is sent"]
        );
        assert_eq!(
            check("otlp_endpoint = \"http://collector.example:4317\"\nheaders = { a = \"${secret:KEY\" }"),
            [
                "telemetry.headers.a: `${secret:` is not closed by `}`",
                "telemetry.otlp_endpoint: headers are sent to other machines over https only: they may be secrets",
            ]
        );
    }
}
