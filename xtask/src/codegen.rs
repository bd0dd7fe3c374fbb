//! `cargo xtask codegen`: proto/ -> Rust types, service stubs and the reflection descriptor, without protoc.

mod rules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::Outcome;

const OUTPUT: &str = "crates/contracts/src/generated";
const HEADER: &str = "// Made by `cargo xtask codegen` from proto/. Do not edit.\n\n";

/// Messages whose events travel as the bytes that were stored (see `contracts::wire`).
const HAND_WRITTEN: &[&str] = &["SubscribeResponse", "DeliveredEvent", "ExportRunResponse"];

pub fn run(check: bool) -> Outcome {
    let root = project_root()?;
    let fresh = generate(&root)?;
    let output = root.join(OUTPUT);
    if check {
        return compare(&fresh, &output);
    }
    fs::create_dir_all(&output)?;
    for (name, content) in &fresh {
        fs::write(output.join(name), content)?;
    }
    println!("codegen: wrote {} files to {OUTPUT}", fresh.len());
    Ok(())
}

fn compare(fresh: &BTreeMap<String, Vec<u8>>, output: &Path) -> Outcome {
    let stale: Vec<&str> = fresh
        .iter()
        .filter(|(name, content)| fs::read(output.join(name)).ok().as_ref() != Some(content))
        .map(|(name, _)| name.as_str())
        .collect();
    if stale.is_empty() {
        println!("codegen: {} files are up to date", fresh.len());
        return Ok(());
    }
    Err(format!("{OUTPUT} differs from proto/ in {}; run `cargo xtask codegen` and commit", stale.join(", "))
        .into())
}

fn generate(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, Box<dyn std::error::Error>> {
    let include = root.join("proto");
    let mut files: Vec<PathBuf> = fs::read_dir(include.join("capataz/v1"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();

    let compiler = compiler(&[&include], &files)?;
    let described = compiler.file_descriptor_set();
    let mut broken = rules::violations(&described, &compiler.descriptor_pool());
    broken.extend(rules::unregistered(&described, &fs::read_to_string(include.join("README.md"))?));
    if !broken.is_empty() {
        return Err(format!("rules of proto/README.md are broken:\n  {}", broken.join("\n  ")).into());
    }
    let with_comments = compiler.file_descriptor_set();
    let descriptor = compiler.encode_file_descriptor_set();

    let scratch = tempfile::tempdir()?;
    let mut builder = tonic_prost_build::configure()
        .out_dir(scratch.path())
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .btree_map(".")
        .bytes(".")
        .codec_path("crate::codec::SmallCodec")
        // Large, and absent from most of the messages that travel through futures.
        .boxed(".capataz.v1.StartRunRequest.work.script")
        .boxed(".capataz.v1.RunResult.work.ask")
        .boxed(".capataz.v1.RunResult.work.script")
        .boxed(".capataz.v1.Task.run")
        .boxed(".capataz.v1.ResultRefused.error")
        .boxed(".capataz.v1.ResultRefusedFrame.error")
        .boxed(".capataz.v1.BlobRef.answer")
        // Larger than the other bodies. An event has the size of its largest body, and is moved several times.
        .boxed(".capataz.v1.Event.body.run_accepted")
        .boxed(".capataz.v1.Event.body.task_settled")
        .boxed(".capataz.v1.Event.body.question_asked")
        .boxed(".capataz.v1.Event.body.question_revised")
        .boxed(".capataz.v1.Event.body.browser_activity_started")
        .boxed(".capataz.v1.Event.body.action_finished")
        .boxed(".capataz.v1.Event.body.action_failed")
        .boxed(".capataz.v1.Event.body.action_proposed")
        .emit_rerun_if_changed(false);
    for message in HAND_WRITTEN {
        builder = builder.extern_path(format!(".capataz.v1.{message}"), format!("crate::wire::{message}"));
    }
    builder.compile_fds(with_comments)?;

    let code = fs::read_to_string(scratch.path().join("capataz.v1.rs"))?;
    let stripped = strip_source_info(&descriptor)?;
    Ok(BTreeMap::from([
        ("capataz.v1.rs".to_owned(), format!("{HEADER}{code}").into_bytes()),
        ("descriptor.binpb".to_owned(), stripped),
    ]))
}

/// Compiles the files with all that they import, comments included.
fn compiler(include: &[&Path], files: &[PathBuf]) -> Result<protox::Compiler, protox::Error> {
    let mut compiler = protox::Compiler::new(include)?;
    compiler.include_imports(true).include_source_info(true).open_files(files)?;
    Ok(compiler)
}

/// Comments stay in proto/; the descriptor in the binary does without them. Unknown fields are the JSON options, so the
/// set is edited as bytes that keep them.
fn strip_source_info(descriptor: &[u8]) -> Result<Vec<u8>, prost::DecodeError> {
    use prost::encoding::{WireType, decode_key, encode_key, encode_varint, skip_field};

    const SOURCE_INFO: u32 = 9;
    const FILE: u32 = 1;
    let mut result = Vec::with_capacity(descriptor.len() / 2);
    let mut rest = descriptor;
    while !rest.is_empty() {
        decode_key(&mut rest)?;
        let length = prost::decode_length_delimiter(&mut rest)?;
        let (mut file, after) = rest.split_at(length);
        rest = after;
        let mut kept = Vec::with_capacity(length);
        while !file.is_empty() {
            let start = file;
            let (tag, wire_type) = decode_key(&mut file)?;
            skip_field(wire_type, tag, &mut file, Default::default())?;
            if tag != SOURCE_INFO {
                kept.extend_from_slice(&start[..start.len() - file.len()]);
            }
        }
        encode_key(FILE, WireType::LengthDelimited, &mut result);
        encode_varint(kept.len() as u64, &mut result);
        result.extend_from_slice(&kept);
    }
    debug_assert!(prost_types::FileDescriptorSet::decode(result.as_slice()).is_ok());
    Ok(result)
}

pub fn project_root() -> Result<PathBuf, std::io::Error> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()
}
