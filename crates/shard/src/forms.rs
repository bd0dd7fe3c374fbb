//! How parts of inputs are written down that serde has no form for.

/// A frame, as the message that carries it.
pub(crate) mod frame {
    use capataz_contracts::v1::{self, connect_request::Frame};
    use prost::Message as _;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(frame: &Frame, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(frame.encoded_len());
        frame.encode(&mut bytes);
        bytes.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Frame, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        let request = v1::ConnectRequest::decode(bytes.as_slice()).map_err(D::Error::custom)?;
        request.frame.ok_or_else(|| D::Error::custom("a frame without contents"))
    }
}

/// The answer to a query for a spec.
pub(crate) mod found {
    use capataz_contracts::v1;
    use capataz_contracts::within::as_bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::turns::Found;

    #[derive(Serialize, Deserialize)]
    struct Written {
        spec: String,
        target: Target,
        rerouted: bool,
        default_spec: Option<String>,
    }

    #[derive(Serialize, Deserialize)]
    enum Target {
        Found(#[serde(with = "as_bytes::one")] Box<v1::Routing>, String),
        Nothing(#[serde(with = "as_bytes::one")] Box<v1::Error>),
    }

    pub(crate) fn serialize<S: Serializer>(found: &Found, serializer: S) -> Result<S::Ok, S::Error> {
        let Found { spec, target, rerouted, default_spec } = found.clone();
        let target = match target {
            Ok((routing, agent)) => Target::Found(routing, agent),
            Err(error) => Target::Nothing(Box::new(error)),
        };
        Written { spec, target, rerouted, default_spec }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Found, D::Error> {
        let Written { spec, target, rerouted, default_spec } = Written::deserialize(deserializer)?;
        let target = match target {
            Target::Found(routing, agent) => Ok((routing, agent)),
            Target::Nothing(error) => Err(*error),
        };
        Ok(Found { spec, target, rerouted, default_spec })
    }
}
