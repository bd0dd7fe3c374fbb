use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
#[expect(clippy::disallowed_types, reason = "repositories are made as people make them")]
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::git::{listed, plain};
use super::{LeftOut, MAX_MANIFEST_BYTES, MAX_MANIFESTS, MAX_PATH_BYTES, MAX_PATHS, Source, within_bounds};

/// A folder with these files, each of which has its own path as its text.
fn folder(paths: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for path in paths {
        write(folder.path(), path, path);
    }
    folder
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns whether there is a git, and it did this.
#[expect(clippy::disallowed_types, reason = "repositories are made as people make them")]
fn git(folder: &Path, arguments: &[&str]) -> bool {
    match Command::new("git").arg("-C").arg(folder).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => {
            eprintln!("skipped: there is no git");
            false
        }
    }
}

#[test]
fn a_folder_is_walked_without_what_is_built_or_installed() {
    let folder = folder(&[
        "b.rs",
        "a/c.rs",
        "a.rs",
        ".github/ci.yml",
        "node_modules/x/package.json",
        "a/target/x",
        "dist/x",
        "build/x",
        ".venv/x",
        "a/.git/config",
        ".env",
        "target.rs",
    ]);
    let source = Source::of(folder.path()).unwrap();
    assert_eq!(source.paths, [".env", ".github/ci.yml", "a.rs", "a/c.rs", "b.rs", "target.rs"]);
    assert_eq!(source.id, folder.path().file_name().unwrap().to_str().unwrap());
    assert_eq!(source.left_out, LeftOut::default());
    assert_eq!(
        source.input(),
        json!({"sourceId": source.id, "paths": [".env", ".github/ci.yml", "a.rs", "a/c.rs", "b.rs", "target.rs"],
            "manifests": {}})
    );
}

#[test]
fn no_link_is_followed() {
    let other = folder(&["secret/package.json", "package.json"]);
    let folder = folder(&["a.rs"]);
    symlink(other.path(), folder.path().join("folder")).unwrap();
    symlink(folder.path(), folder.path().join("circle")).unwrap();
    symlink(other.path().join("package.json"), folder.path().join("package.json")).unwrap();
    let source = Source::of(folder.path()).unwrap();
    assert_eq!(source.paths, ["a.rs"]);
    // Nor where git has listed what is a link now.
    let listing = b"a.rs\0folder/package.json\0package.json\0gone.rs\0../a.rs\0";
    let found = listed(folder.path(), listing);
    assert_eq!(found.paths.into_iter().collect::<Vec<_>>(), ["a.rs"]);
}

#[test]
fn names_that_cannot_be_told_are_counted() {
    let folder = folder(&["a.rs", "b\\c.rs", "d\ne.rs", "ü.rs"]);
    fs::write(folder.path().join(OsStr::from_bytes(b"\xff.rs")), "").unwrap();
    let source = Source::of(folder.path()).unwrap();
    assert_eq!(source.paths, ["a.rs", "ü.rs"]);
    assert_eq!(source.left_out, LeftOut { names: 3, beyond: 0 });
    let found = listed(folder.path(), b"\xff.rs\0a.rs\0");
    assert_eq!((found.paths.len(), found.left_out.names), (1, 1));
}

#[test]
fn manifests_are_read_from_the_top_and_only_their_beginnings() {
    let folder =
        folder(&["README.md", "a/README.md", ".env", "id_rsa", "a/b/go.mod", "server.pem", "src/lib.rs"]);
    for index in 0..70 {
        write(folder.path(), &format!("packages/p{index:02}/package.json"), "{}");
    }
    write(folder.path(), "Cargo.toml", &"ü".repeat(MAX_MANIFEST_BYTES));
    fs::write(folder.path().join("package.json"), b"{\"name\": \"\xff\"}").unwrap();
    fs::write(folder.path().join("setup.py"), b"\0").unwrap();
    let source = Source::of(folder.path()).unwrap();
    let read: Vec<_> = source.manifests.keys().map(String::as_str).collect();
    // Two of the 64 are no text. Those with less folders above them come first, and then go by their names.
    assert_eq!(read.len(), MAX_MANIFESTS - 2);
    assert_eq!(read[..4], ["Cargo.toml", "README.md", "a/b/go.mod", "packages/p00/package.json"]);
    assert_eq!(read.last(), Some(&"packages/p58/package.json"));
    assert_eq!(source.manifests["Cargo.toml"], "ü".repeat(MAX_MANIFEST_BYTES / 2));
    assert_eq!(source.manifests["README.md"], "README.md");
    let odd = "a".repeat(MAX_MANIFEST_BYTES - 1) + "ü";
    write(folder.path(), "Cargo.toml", &odd);
    let source = Source::of(folder.path()).unwrap();
    assert_eq!(source.manifests["Cargo.toml"].len(), MAX_MANIFEST_BYTES - 1);
}

#[test]
fn paths_are_bounded_by_number_and_by_bytes() {
    let paths = |count: usize, length: usize| (0..count).map(|index| format!("{index:0length$}")).collect();
    let (kept, beyond) = within_bounds(paths(MAX_PATHS + 7, 6));
    assert_eq!((kept.len(), beyond), (MAX_PATHS, 7));
    let (kept, beyond) = within_bounds(paths(1_100, 1_024));
    assert_eq!((kept.len(), beyond), (MAX_PATH_BYTES / 1_024, 1_100 - 1_024));
    assert!(kept.is_sorted());
}

#[test]
fn what_is_no_folder_is_an_error() {
    let folder = folder(&["a.rs"]);
    assert!(Source::of(&folder.path().join("a.rs")).is_err());
    assert!(Source::of(&folder.path().join("none")).is_err());
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Source::of(empty.path()).unwrap().paths, [""; 0]);
}

#[test]
fn an_address_of_a_server_an_owner_and_a_repository_names_a_source() {
    for (address, expected) in [
        ("https://example.org/owner/repo.git", Some("owner/repo")),
        ("https://user:password@example.org/owner/repo", Some("owner/repo")),
        ("git@example.org:owner/repo.git", Some("owner/repo")),
        ("ssh://git@example.org:22/Owner/re.po_1/", Some("Owner/re.po_1")),
        ("https://example.org/group/sub/repo", None),
        ("https://example.org/repo", None),
        ("https://example.org/own er/repo", None),
        ("https://example.org/owner/repo?token=1", None),
        ("https://example.org/../repo", None),
        ("file:///srv/owner/repo", None),
        ("/srv/git/owner/repo", None),
        ("../owner/repo", None),
        ("C:/owner/repo", None),
        ("", None),
    ] {
        assert_eq!(plain(address).as_deref(), expected, "{address}");
    }
}

#[test]
fn in_a_work_tree_the_files_are_those_of_git() {
    let folder = folder(&[
        "src/a.rs",
        "src/gone.rs",
        "new.rs",
        "out/x.bin",
        "out/kept.txt",
        "packages/web/package.json",
    ]);
    write(folder.path(), ".gitignore", "out/*\n!out/kept.txt\n");
    let at = folder.path();
    if !git(at, &["init", "--quiet"]) {
        return;
    }
    git(at, &["add", "src", "packages"]);
    fs::remove_file(at.join("src/gone.rs")).unwrap();
    let source = Source::of(at).unwrap();
    let expected = [".gitignore", "new.rs", "out/kept.txt", "packages/web/package.json", "src/a.rs"];
    assert_eq!(source.paths, expected);
    assert_eq!(source.id, at.file_name().unwrap().to_str().unwrap());

    git(at, &["remote", "add", "fork", "git@example.org:me/shop.git"]);
    assert_eq!(Source::of(at).unwrap().id, "me/shop");
    git(at, &["remote", "add", "origin", "https://token@example.org/org/shop.git"]);
    assert_eq!(Source::of(at).unwrap().id, "org/shop");
    // A folder of it is a source of its own.
    let web = Source::of(&at.join("packages/web")).unwrap();
    assert_eq!((web.id.as_str(), web.paths), ("org/shop/packages/web", vec!["package.json".to_owned()]));
    // What git ignores altogether is walked.
    write(at, "out/inner/b.rs", "");
    assert_eq!(Source::of(&at.join("out/inner")).unwrap().paths, ["b.rs"]);
    // A program that the repository names is not started.
    let started = at.join("started");
    let script = at.join("monitor.sh");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", started.display())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    git(at, &["config", "core.fsmonitor", script.to_str().unwrap()]);
    Source::of(at).unwrap();
    assert!(!started.exists());
}

#[test]
fn this_repository_is_listed_with_its_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = Source::of(&root).unwrap();
    assert!(source.paths.contains(&"crates/cli/src/main.rs".to_owned()));
    assert!(source.paths.iter().all(|path| !path.starts_with("target/")), "nothing that is built");
    assert!(source.manifests["crates/cli/Cargo.toml"].contains("name = \"capataz-cli\""));
    assert_eq!(source.left_out, LeftOut::default());
}
