//! What the walkers need to know of each message, worked out once from the descriptor.

use std::collections::BTreeMap;

use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind,
    MessageDescriptor,
};

#[derive(Debug)]
pub struct Schema {
    messages: BTreeMap<String, MessageShape>,
}

#[derive(Debug)]
pub struct MessageShape {
    pub descriptor: MessageDescriptor,
    pub fields: Vec<FieldShape>,
    /// What each key of the JSON object means: an index into `fields`, and how its value is written.
    pub keys: BTreeMap<String, (usize, Form)>,
    /// The number of the field that takes the keys that are not known.
    pub rest: Option<u32>,
    /// True when the message is its one repeated field, in JSON a list.
    pub is_list: bool,
}

#[derive(Debug)]
pub struct FieldShape {
    pub descriptor: FieldDescriptor,
    /// The field's own name.
    pub name: String,
    /// The key that is printed.
    pub printed: String,
    pub shape: Shape,
    pub multiplicity: Multiplicity,
    pub oneof: Option<String>,
    pub duration: bool,
    pub output_only: bool,
    /// Printed also where it holds its default.
    pub always: bool,
}

/// How the value under a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// A text with units, for a field of milliseconds.
    Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Multiplicity {
    One,
    List,
    /// Keyed by the shape.
    Map(Shape),
}

/// The shape of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Bool,
    I32,
    I64,
    U32,
    U64,
    F64,
    Text,
    Bytes,
    /// The text of a JSON value.
    Json,
    /// Values as printed, with their numbers. The number 0 is the unspecified one.
    Enum(Vec<(String, i32)>),
    /// The message with this full name.
    Message(String),
    /// A type that the contract does not use: floats, and integers in their less common encodings.
    Unsupported,
}

/// The custom options of `options.proto`, where the pool has them.
struct Options {
    json_case: Option<ExtensionDescriptor>,
    duration: Option<ExtensionDescriptor>,
    output_only: Option<ExtensionDescriptor>,
    json_value: Option<ExtensionDescriptor>,
    json_rest: Option<ExtensionDescriptor>,
    json_list: Option<ExtensionDescriptor>,
    json_own_names: Option<ExtensionDescriptor>,
    json_complete: Option<ExtensionDescriptor>,
    json_camel_case: Option<ExtensionDescriptor>,
}

impl Options {
    fn flag(options: &DynamicMessage, option: Option<&ExtensionDescriptor>) -> bool {
        option.is_some_and(|option| options.get_extension(option).as_bool() == Some(true))
    }
}

impl Schema {
    pub fn new(pool: &DescriptorPool) -> Self {
        let option = |name: &str| pool.get_extension_by_name(&format!("capataz.v1.{name}"));
        let options = Options {
            json_case: option("json_case"),
            duration: option("duration"),
            output_only: option("output_only"),
            json_value: option("json_value"),
            json_rest: option("json_rest"),
            json_list: option("json_list"),
            json_own_names: option("json_own_names"),
            json_complete: option("json_complete"),
            json_camel_case: option("json_camel_case"),
        };
        let messages = pool
            .all_messages()
            .map(|message| (message.full_name().to_owned(), MessageShape::new(message, &options)))
            .collect();
        Self { messages }
    }

    pub fn message(&self, full_name: &str) -> Option<&MessageShape> {
        self.messages.get(full_name)
    }
}

impl MessageShape {
    fn new(descriptor: MessageDescriptor, options: &Options) -> Self {
        let is_rest = |field: &FieldDescriptor| Options::flag(&field.options(), options.json_rest.as_ref());
        let rest = descriptor.fields().find(is_rest).map(|field| field.number());
        let message_options = descriptor.options();
        let is_complete = Options::flag(&message_options, options.json_complete.as_ref());
        let in_camel_case = Options::flag(&message_options, options.json_camel_case.as_ref());
        let fields: Vec<FieldShape> = descriptor
            .fields()
            .filter(|field| !is_rest(field))
            .map(|field| FieldShape::new(field, is_complete, in_camel_case, options))
            .collect();
        let is_list = Options::flag(&message_options, options.json_list.as_ref());
        let own_names_only = Options::flag(&message_options, options.json_own_names.as_ref());
        let mut keys: BTreeMap<String, (usize, Form)> = BTreeMap::new();
        // Own names first: an alias never takes the name of another field.
        for (index, field) in fields.iter().enumerate() {
            keys.insert(field.name.clone(), (index, Form::Plain));
        }
        let with_aliases = if own_names_only { &[] } else { fields.as_slice() };
        for (index, field) in with_aliases.iter().enumerate() {
            if let Some(base) = field.name.strip_suffix("_ms").filter(|_| field.duration) {
                keys.entry(base.to_owned()).or_insert((index, Form::Duration));
                keys.entry(camel_case(base)).or_insert((index, Form::Duration));
            }
            keys.entry(field.descriptor.json_name().to_owned()).or_insert((index, Form::Plain));
        }
        Self { descriptor, fields, keys, rest, is_list }
    }
}

impl FieldShape {
    fn new(descriptor: FieldDescriptor, of_complete: bool, in_camel_case: bool, options: &Options) -> Self {
        let field_options = descriptor.options();
        let (multiplicity, shape) = match descriptor.kind() {
            Kind::Message(entry) if descriptor.is_map() => (
                Multiplicity::Map(Shape::new(entry.map_entry_key_field().kind(), options)),
                Shape::new(entry.map_entry_value_field().kind(), options),
            ),
            kind if descriptor.cardinality() == Cardinality::Repeated => {
                (Multiplicity::List, Shape::new(kind, options))
            }
            Kind::String if Options::flag(&field_options, options.json_value.as_ref()) => {
                (Multiplicity::One, Shape::Json)
            }
            kind => (Multiplicity::One, Shape::new(kind, options)),
        };
        let oneof = descriptor.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        // An enum without a value says nothing, and what has presence or several values says by itself whether it is there.
        let always = of_complete
            && multiplicity == Multiplicity::One
            && !descriptor.supports_presence()
            && !matches!(shape, Shape::Enum(_));
        Self {
            always,
            name: descriptor.name().to_owned(),
            printed: if in_camel_case { descriptor.json_name() } else { descriptor.name() }.to_owned(),
            shape,
            multiplicity,
            oneof: oneof.map(|oneof| oneof.name().to_owned()),
            duration: Options::flag(&field_options, options.duration.as_ref()),
            output_only: Options::flag(&field_options, options.output_only.as_ref()),
            descriptor,
        }
    }
}

impl Shape {
    fn new(kind: Kind, options: &Options) -> Self {
        match kind {
            Kind::Bool => Shape::Bool,
            Kind::Int32 => Shape::I32,
            Kind::Int64 => Shape::I64,
            Kind::Uint32 => Shape::U32,
            Kind::Uint64 => Shape::U64,
            Kind::Double => Shape::F64,
            Kind::String => Shape::Text,
            Kind::Bytes => Shape::Bytes,
            Kind::Enum(descriptor) => Shape::Enum(enum_values(&descriptor, options)),
            Kind::Message(descriptor) => Shape::Message(descriptor.full_name().to_owned()),
            _ => Shape::Unsupported,
        }
    }
}

fn enum_values(descriptor: &EnumDescriptor, options: &Options) -> Vec<(String, i32)> {
    // EnumCase.ENUM_CASE_UPPER
    const UPPER: i32 = 1;
    let upper = options
        .json_case
        .as_ref()
        .is_some_and(|option| descriptor.options().get_extension(option).as_enum_number() == Some(UPPER));
    let prefix = format!("{}_", screaming_snake_case(descriptor.name()));
    descriptor
        .values()
        .map(|value| {
            let name = value.name().strip_prefix(&prefix).unwrap_or(value.name());
            let name = if upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
            (name, value.number())
        })
        .collect()
}

/// `RunKind` to `RUN_KIND`.
fn screaming_snake_case(name: &str) -> String {
    let mut result = String::with_capacity(name.len() + 4);
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            result.push('_');
        }
        result.push(c.to_ascii_uppercase());
    }
    result
}

/// `base_delay` to `baseDelay`, as protobuf's json_name does it.
pub fn camel_case(name: &str) -> String {
    let mut result = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else {
            result.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    result
}
