//! The contract's types within other encodings (serde): snapshots of states, traces of a daemon. Fields name these modules
//! with `#[serde(with = "…")]`.

/// Enums, as their numbers.
pub mod number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<E: Copy + Into<i32>, S: Serializer>(
        value: &E,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let number: i32 = (*value).into();
        number.serialize(serializer)
    }

    pub fn deserialize<'de, E: TryFrom<i32, Error: std::fmt::Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<E, D::Error> {
        E::try_from(i32::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Messages, as their protobuf bytes.
pub mod as_bytes {
    use prost::Message;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub mod one {
        use super::{Deserialize, Deserializer, Error, Message, Serialize, Serializer};

        pub fn serialize<M: Message, S: Serializer>(message: &M, serializer: S) -> Result<S::Ok, S::Error> {
            message.encode_to_vec().serialize(serializer)
        }

        pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<M, D::Error> {
            let bytes = Vec::<u8>::deserialize(deserializer)?;
            M::decode(bytes.as_slice()).map_err(D::Error::custom)
        }
    }

    pub mod option {
        use super::{Deserialize, Deserializer, Error, Message, Serialize, Serializer};

        pub fn serialize<M: Message, S: Serializer>(
            message: &Option<M>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            message.as_ref().map(Message::encode_to_vec).serialize(serializer)
        }

        pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<M>, D::Error> {
            let bytes = Option::<Vec<u8>>::deserialize(deserializer)?;
            bytes.map(|bytes| M::decode(bytes.as_slice())).transpose().map_err(D::Error::custom)
        }
    }

    pub mod list {
        use super::{Deserialize, Deserializer, Error, Message, Serialize, Serializer};

        pub fn serialize<M: Message, S: Serializer>(
            messages: &[M],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            messages.iter().map(Message::encode_to_vec).collect::<Vec<_>>().serialize(serializer)
        }

        pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<M>, D::Error> {
            let list = Vec::<Vec<u8>>::deserialize(deserializer)?;
            list.iter()
                .map(|bytes| M::decode(bytes.as_slice()))
                .collect::<Result<_, _>>()
                .map_err(D::Error::custom)
        }
    }
}
