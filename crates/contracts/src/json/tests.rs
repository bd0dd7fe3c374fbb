//! Over every message of the contract: what is printed is read back, and is printed the same again.
#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage, Value as Field};

use super::*;
use crate::path::Path;
use crate::v1;

/// A stream of numbers that look random (SplitMix64).
struct Entropy(u64);

impl Entropy {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 6] = ["", "a", "ñandú ✓", "${tasks.a.output}", "line\nline", "\u{0}\"\\"];
        TEXTS.get(self.below(TEXTS.len() as u64) as usize).copied().unwrap_or_default().to_owned()
    }

    fn json(&mut self, depth: usize) -> Value {
        match self.below(if depth > 4 { 6 } else { 10 }) {
            0 => Value::Bool(false),
            1 => Value::from(self.draw()),
            2 => Value::from(self.draw() as i64),
            3 => Value::from(f64::from_bits(self.draw())),
            4 | 5 => Value::from(self.text()),
            6 | 7 => (0..self.below(3)).map(|_| self.json(depth + 1)).collect(),
            8 => serde_json::json!({ "$text": self.text() }),
            _ => serde_json::json!({ (self.text()): self.json(depth + 1), "$other": null }),
        }
    }

    fn payload(&mut self, descriptor: MessageDescriptor) -> DynamicMessage {
        let inline = |media_type: &str, bytes: Vec<u8>| v1::Payload {
            media_type: media_type.to_owned(),
            data: Some(v1::payload::Data::Inline(bytes.into())),
        };
        let payload = match self.below(6) {
            0 => inline("text/plain", self.text().into_bytes()),
            1 => inline("text/plain", vec![0xff, 0xfe]),
            2 => inline("application/octet-stream", self.draw().to_be_bytes().to_vec()),
            3 => inline("application/json", b"{ not json".to_vec()),
            4 => {
                let blob = v1::BlobRef::new(self.text(), self.draw());
                v1::Payload { media_type: self.text(), data: Some(v1::payload::Data::Blob(blob)) }
            }
            _ => {
                let value = self.json(0);
                // `null` is an absent payload; that it is not read back as one is part of the form.
                let value = if value.is_null() { Value::Bool(true) } else { value };
                inline("application/json", value.to_string().into_bytes())
            }
        };
        let mut message = DynamicMessage::new(descriptor);
        message.transcode_from(&payload).expect("the payload is of this type");
        message
    }

    fn message(&mut self, descriptor: MessageDescriptor, depth: usize) -> DynamicMessage {
        if descriptor.full_name() == payload::FULL_NAME {
            return self.payload(descriptor);
        }
        let mut message = DynamicMessage::new(descriptor.clone());
        let shape = SCHEMA.message(descriptor.full_name()).expect("the message is in the schema");
        for field in descriptor.fields() {
            let known = shape.fields.iter().find(|known| known.descriptor.number() == field.number());
            // What only the daemon sets is printed, and never read.
            if self.below(3) == 0 || depth > 6 || known.is_some_and(|known| known.output_only) {
                continue;
            }
            let value = if shape.rest == Some(field.number()) {
                // Printed in place, sorted as a map is.
                Field::String(serde_json::json!({ "$later": self.json(0), "~": null }).to_string())
            } else if known.is_some_and(|known| known.shape == schema::Shape::Json) {
                let value = Some(self.json(0)).filter(|value| !value.is_null());
                Field::String(value.unwrap_or(Value::Bool(false)).to_string())
            } else if let Kind::Message(entry) = field.kind()
                && field.is_map()
            {
                let kind = entry.map_entry_value_field().kind();
                let entries = (0..self.below(3))
                    .map(|_| (MapKey::String(self.text()), self.field(kind.clone(), depth)));
                Field::Map(entries.collect())
            } else if field.is_list() {
                Field::List((0..self.below(3)).map(|_| self.field(field.kind(), depth)).collect())
            } else {
                self.field(field.kind(), depth)
            };
            message.set_field(&field, value);
        }
        message
    }

    fn field(&mut self, kind: Kind, depth: usize) -> Field {
        match kind {
            Kind::Bool => Field::Bool(self.below(2) == 1),
            Kind::Int32 => Field::I32(self.draw() as i32),
            // Durations are never negative.
            Kind::Int64 => Field::I64((self.draw() >> 1) as i64),
            Kind::Uint32 => Field::U32(self.draw() as u32),
            Kind::Uint64 => Field::U64(self.draw()),
            Kind::Double => {
                Field::F64(Some(f64::from_bits(self.draw())).filter(|x| x.is_finite()).unwrap_or(0.5))
            }
            Kind::String => Field::String(self.text()),
            Kind::Bytes => Field::Bytes(self.draw().to_le_bytes().to_vec().into()),
            Kind::Enum(values) => {
                let index = self.below(values.values().len() as u64) as usize;
                Field::EnumNumber(values.values().nth(index).map_or(0, |value| value.number()))
            }
            Kind::Message(inner) => Field::Message(self.message(inner, depth + 1)),
            other => panic!("the generator does not know {other:?}"),
        }
    }
}

fn contract_messages() -> Vec<MessageDescriptor> {
    let plan = SCHEMA.message("capataz.v1.Plan").expect("the contract has plans");
    let pool = plan.descriptor.parent_pool();
    pool.all_messages()
        .filter(|message| message.package_name() == "capataz.v1" && !message.is_map_entry())
        .collect()
}

fn read_back(name: &str, document: &Value) -> DynamicMessage {
    let shape = SCHEMA.message(name).expect("the message is in the schema");
    let mut reader = Reader::new(&SCHEMA, name, Unknown::Kept);
    let mut bytes = Vec::new();
    reader.message(shape, document, &Path::Root, 0, &mut bytes);
    let (violations, _) = reader.into_parts();
    let violations = violations.into_vec();
    assert!(violations.is_empty(), "{name}: {violations:?}\n{document:#}");
    DynamicMessage::decode(shape.descriptor.clone(), bytes.as_slice()).expect("it was written for this type")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_message_survives_its_json_form(seed in any::<u64>()) {
        for descriptor in contract_messages() {
            let name = descriptor.full_name().to_owned();
            let message = decoded(&Entropy(seed).message(descriptor, 0));
            let document = print_bytes(&name, &message.encode_to_vec()).expect("the message is of this type");
            let again = decoded(&read_back(&name, &document));
            // Not `prop_assert_eq`: what it prints of a message is endless where the type is recursive.
            prop_assert!(again == message, "{name}: {document}");
            let printed = print_bytes(&name, &again.encode_to_vec()).expect("the message is of this type");
            prop_assert_eq!(printed, document);
        }
    }
}

/// The message as it arrives: fields without presence that hold their default are not there.
fn decoded(message: &DynamicMessage) -> DynamicMessage {
    let bytes = message.encode_to_vec();
    DynamicMessage::decode(message.descriptor(), bytes.as_slice()).expect("just encoded")
}

#[test]
fn the_contract_has_only_types_that_the_json_form_knows() {
    for descriptor in contract_messages() {
        let shape = SCHEMA.message(descriptor.full_name()).expect("the message is in the schema");
        for field in &shape.fields {
            let name = field.descriptor.full_name();
            assert_ne!(field.shape, schema::Shape::Unsupported, "{name}");
            if let schema::Multiplicity::Map(keys) = &field.multiplicity {
                assert_eq!(*keys, schema::Shape::Text, "{name}");
            }
            if field.duration {
                assert!(name.ends_with("_ms") && field.shape == schema::Shape::I64, "{name}");
            }
        }
    }
}

#[test]
fn every_enum_value_has_a_spelling_without_its_prefix() {
    for descriptor in contract_messages() {
        let shape = SCHEMA.message(descriptor.full_name()).expect("the message is in the schema");
        for field in &shape.fields {
            if let schema::Shape::Enum(values) = &field.shape {
                let first = values.first().expect("an enum has values");
                assert!(
                    first.0.eq_ignore_ascii_case("unspecified"),
                    "{}: {first:?}",
                    field.descriptor.full_name()
                );
            }
        }
    }
}
