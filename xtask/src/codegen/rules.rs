//! Rules of `proto/` that a compiler does not know: everything has a comment, since the comments become the
//! documentation of every SDK, and every method says who may call it and what the call is about.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use prost_types::source_code_info::Location;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use protox::prost_reflect::{DescriptorPool, MethodDescriptor};

const PACKAGE: &str = "capataz.v1";
/// The numbers that options of ours may have, by `proto/README.md`.
const OPTION_NUMBERS: RangeInclusive<i32> = 74_100..=74_199;
/// Options that every method has, as `proto/capataz/v1/options.proto` defines them.
const METHOD_OPTIONS: [&str; 2] = ["access", "scope"];

/// Fields of `FileDescriptorProto`, `DescriptorProto`, `EnumDescriptorProto` and `ServiceDescriptorProto` that lead to
/// their parts, as paths of the source information spell them.
mod part {
    pub const MESSAGE: i32 = 4;
    pub const ENUM: i32 = 5;
    pub const SERVICE: i32 = 6;
    pub const EXTENSION: i32 = 7;
    pub const FIELD: i32 = 2;
    pub const NESTED_MESSAGE: i32 = 3;
    pub const NESTED_ENUM: i32 = 4;
    pub const VALUE: i32 = 2;
    pub const METHOD: i32 = 2;
}

/// Everything in the package that breaks a rule, by its full name, in the order of the files.
pub(super) fn violations(files: &FileDescriptorSet, pool: &DescriptorPool) -> Vec<String> {
    let ours = files.file.iter().filter(|file| file.package() == PACKAGE);
    let uncommented = ours.flat_map(|file| Comments::new(file).missing(file));
    let methods = pool.services().filter(|service| service.parent_file().package_name() == PACKAGE);
    let methods: Vec<MethodDescriptor> =
        methods.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let unlabelled = methods.iter().flat_map(|method| without_options(method, pool));
    uncommented.chain(unlabelled).chain(wrong_numbers(files)).collect()
}

/// The package's own options, in the order of the files: name and number.
fn own_options(files: &FileDescriptorSet) -> impl Iterator<Item = (&str, i32)> {
    let ours = files.file.iter().filter(|file| file.package() == PACKAGE);
    ours.flat_map(|file| &file.extension).map(|option| (option.name(), option.number()))
}

/// Options whose numbers may be others', or are given twice, whatever they are options of.
fn wrong_numbers(files: &FileDescriptorSet) -> Vec<String> {
    let mut taken = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, number) in own_options(files) {
        if !OPTION_NUMBERS.contains(&number) {
            let (first, last) = (OPTION_NUMBERS.start(), OPTION_NUMBERS.end());
            wrong.push(format!(
                "{PACKAGE}.{name} has the number {number}, which is not from {first} to {last}"
            ));
        }
        if let Some(other) = taken.insert(number, name) {
            wrong.push(format!("{PACKAGE}.{name} and {PACKAGE}.{other} have the same number, {number}"));
        }
    }
    wrong
}

/// How the table of options in `proto/README.md` differs from the options.
pub(super) fn unregistered(files: &FileDescriptorSet, readme: &str) -> Vec<String> {
    let rows: BTreeSet<(String, i32)> = readme.lines().filter_map(row).collect();
    let options: BTreeSet<(String, i32)> =
        own_options(files).map(|(name, number)| (name.to_owned(), number)).collect();
    let missing = options.difference(&rows).map(|(name, number)| {
        format!("{PACKAGE}.{name} = {number} has no row in the table of proto/README.md")
    });
    let surplus = rows.difference(&options).map(|(name, number)| {
        format!("the table of proto/README.md has {name} = {number}, which is no option")
    });
    missing.chain(surplus).collect()
}

/// A row of the table: the option's name between backticks, then its number.
fn row(line: &str) -> Option<(String, i32)> {
    let mut cells = line.split('|').skip(1).map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    Some((name.to_owned(), cells.next()?.parse().ok()?))
}

/// The options that a method lacks, or leaves unspecified.
fn without_options(method: &MethodDescriptor, pool: &DescriptorPool) -> Vec<String> {
    let options = method.options();
    let is_given = |name: &&str| {
        let extension = pool.get_extension_by_name(&format!("{PACKAGE}.{name}"));
        extension.is_some_and(|extension| {
            options.get_extension(&extension).as_enum_number().is_some_and(|number| number != 0)
        })
    };
    let missing = METHOD_OPTIONS.iter().filter(|name| !is_given(name));
    missing.map(|name| format!("{} has no option ({name})", method.full_name())).collect()
}

/// Which places of one file have a comment, and which were looked at and have none.
struct Comments<'a> {
    locations: &'a [Location],
    missing: Vec<String>,
}

impl<'a> Comments<'a> {
    fn new(file: &'a FileDescriptorProto) -> Self {
        let locations = file.source_code_info.as_ref().map_or(&[][..], |info| &info.location);
        Self { locations, missing: Vec::new() }
    }

    fn missing(mut self, file: &FileDescriptorProto) -> Vec<String> {
        for (place, message) in (0..).zip(&file.message_type) {
            self.message(message, &[part::MESSAGE, place], file.package());
        }
        for (place, values) in (0..).zip(&file.enum_type) {
            self.values(values, &[part::ENUM, place], file.package());
        }
        for (place, extension) in (0..).zip(&file.extension) {
            self.look(&[part::EXTENSION, place], file.package(), extension.name());
        }
        for (place, service) in (0..).zip(&file.service) {
            let path = [part::SERVICE, place];
            let name = self.look(&path, file.package(), service.name());
            for (place, method) in (0..).zip(&service.method) {
                self.look(&below(&path, part::METHOD, place), &name, method.name());
            }
        }
        self.missing
    }

    fn message(&mut self, message: &DescriptorProto, path: &[i32], parent: &str) {
        // The entries of a map are written nowhere.
        if message.options.as_ref().is_some_and(|options| options.map_entry()) {
            return;
        }
        let name = self.look(path, parent, message.name());
        for (place, field) in (0..).zip(&message.field) {
            self.look(&below(path, part::FIELD, place), &name, field.name());
        }
        for (place, nested) in (0..).zip(&message.nested_type) {
            self.message(nested, &below(path, part::NESTED_MESSAGE, place), &name);
        }
        for (place, values) in (0..).zip(&message.enum_type) {
            self.values(values, &below(path, part::NESTED_ENUM, place), &name);
        }
    }

    fn values(&mut self, values: &EnumDescriptorProto, path: &[i32], parent: &str) {
        let name = self.look(path, parent, values.name());
        for (place, value) in (0..).zip(&values.value) {
            self.look(&below(path, part::VALUE, place), &name, value.name());
        }
    }

    /// Notes what has no comment; its full name.
    fn look(&mut self, path: &[i32], parent: &str, name: &str) -> String {
        let name = format!("{parent}.{name}");
        let has_comment = self.locations.iter().filter(|location| location.path == path).any(|location| {
            [location.leading_comments(), location.trailing_comments()]
                .iter()
                .any(|text| !text.trim().is_empty())
        });
        if !has_comment {
            self.missing.push(format!("{name} has no comment"));
        }
        name
    }
}

fn below(path: &[i32], part: i32, place: i32) -> Vec<i32> {
    path.iter().copied().chain([part, place]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prost_types::FieldDescriptorProto;

    use super::*;
    use crate::codegen::{compiler, project_root};

    /// What is wrong with a file of the contract that imports its options.
    fn found(source: &str) -> Vec<String> {
        let Ok(root) = project_root() else { unreachable!("tests run in the project") };
        let Ok(folder) = tempfile::tempdir() else { unreachable!("a folder for the test") };
        let path = folder.path().join("planted.proto");
        let head = "syntax = \"proto3\";\npackage capataz.v1;\nimport \"capataz/v1/options.proto\";\n";
        let written = fs::write(&path, format!("{head}{source}"));
        assert!(written.is_ok(), "{written:?}");
        match compiler(&[folder.path(), &root.join("proto")], &[path]) {
            Ok(compiled) => {
                let mut files = compiled.file_descriptor_set();
                files.file.retain(|file| file.name() == "planted.proto");
                violations(&files, &compiled.descriptor_pool())
            }
            Err(error) => unreachable!("{error}"),
        }
    }

    const COMPLETE: &str = "
        // A service.
        service Planted {
          // A method.
          rpc Call(Asked) returns (Asked) {
            option (access) = ACCESS_READ;
            option (scope) = SCOPE_DAEMON;
          }
        }
        // A message.
        message Asked {
          // A map, whose entry is written nowhere.
          map<string, string> labels = 1;
          oneof choice {
            // A member.
            Kind kind = 2;
          }
          bool ready = 3; // Behind it counts as well.
          // A message in it.
          message Inner {
            // A field in it.
            uint32 count = 1;
          }
          // An enum in it.
          enum Kind {
            // A value in it.
            KIND_UNSPECIFIED = 0;
          }
        }
    ";

    #[test]
    fn what_is_complete_breaks_no_rule() {
        assert_eq!(found(COMPLETE), Vec::<String>::new());
    }

    #[test]
    fn each_comment_that_is_missing_is_named() {
        let cases = [
            ("// A service.", "Planted"),
            ("// A method.", "Planted.Call"),
            ("// A message.", "Asked"),
            ("// A map, whose entry is written nowhere.", "Asked.labels"),
            ("// A member.", "Asked.kind"),
            ("// Behind it counts as well.", "Asked.ready"),
            ("// A message in it.", "Asked.Inner"),
            ("// A field in it.", "Asked.Inner.count"),
            ("// An enum in it.", "Asked.Kind"),
            ("// A value in it.", "Asked.Kind.KIND_UNSPECIFIED"),
        ];
        for (comment, name) in cases {
            let expected = format!("capataz.v1.{name} has no comment");
            assert_eq!(found(&COMPLETE.replace(comment, "")), [expected.as_str()]);
            // Nor is an empty one a comment.
            assert_eq!(found(&COMPLETE.replace(comment, "//\n")), [expected.as_str()]);
        }
    }

    #[test]
    fn a_method_that_does_not_say_who_may_call_it_is_named() {
        for option in METHOD_OPTIONS {
            let expected = [format!("capataz.v1.Planted.Call has no option ({option})")];
            let given = COMPLETE.lines().find(|line| line.contains(&format!("option ({option})")));
            let Some(given) = given else { unreachable!("the file has the option") };
            assert_eq!(found(&COMPLETE.replace(given, "")), expected);
            let unspecified = format!("option ({option}) = {}_UNSPECIFIED;", option.to_uppercase());
            assert_eq!(found(&COMPLETE.replace(given, &unspecified)), expected);
        }
    }

    #[test]
    fn an_extension_without_a_comment_is_named() {
        let source = "extend google.protobuf.MethodOptions {\n  bool planted = 74199;\n}\n";
        let import = "import \"google/protobuf/descriptor.proto\";\n";
        assert_eq!(found(&format!("{import}{source}")), ["capataz.v1.planted has no comment"]);
    }

    #[test]
    fn an_option_with_a_number_that_others_may_have_or_one_that_is_taken_is_named() {
        let with = |numbers: [i32; 2]| {
            let [one, two] = numbers;
            found(&format!(
                "import \"google/protobuf/descriptor.proto\";\n\
                 extend google.protobuf.EnumOptions {{\n  // One.\n  bool one = {one};\n}}\n\
                 extend google.protobuf.FieldOptions {{\n  // Two.\n  bool two = {two};\n}}\n"
            ))
        };
        assert_eq!(with([74_198, 74_199]), [""; 0]);
        let theirs = "capataz.v1.one has the number 50101, which is not from 74100 to 74199";
        assert_eq!(with([50_101, 74_199]), [theirs]);
        assert_eq!(with([74_199, 74_199]), ["capataz.v1.two and capataz.v1.one have the same number, 74199"]);
    }

    #[test]
    fn an_option_without_a_row_and_a_row_without_an_option_are_named() {
        let options = [("one", 74_101), ("two", 74_102)];
        let extension = options.map(|(name, number)| FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            ..FieldDescriptorProto::default()
        });
        let package = Some(PACKAGE.to_owned());
        let file = FileDescriptorProto { package, extension: extension.into(), ..Default::default() };
        let files = FileDescriptorSet { file: vec![file] };
        let table = "| option | number | of |\n|---|---|---|\n| `one` | 74101 | enums |\n";
        assert_eq!(unregistered(&files, &format!("{table}| `two` | 74102 | fields |\n")), [""; 0]);
        let expected = [
            "capataz.v1.two = 74102 has no row in the table of proto/README.md",
            "the table of proto/README.md has two = 74103, which is no option",
        ];
        assert_eq!(unregistered(&files, &format!("{table}| `two` | 74103 | fields |\n")), expected);
    }
}
