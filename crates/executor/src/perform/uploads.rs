//! Files that are to be uploaded. A browser accepts a missing file without a word, so they are looked at before.

use std::path::{Path, PathBuf};

use capataz_policy::executor::code;
use serde_json::json;

use super::step::Step;
use crate::dsl::Action;
use crate::error::Failure;
use crate::page::Page;

impl<P: Page> Step<'_, P> {
    /// The files, without links and `..` in their paths: each regular, readable, and below a declared folder.
    pub(super) async fn files_to_upload(&self, action: &Action) -> Result<Vec<PathBuf>, Failure> {
        let files = &action.spec.files;
        let takes_several = self.element.as_ref().is_some_and(|element| element.facts.multiple);
        if let Some(second) = files.get(1).filter(|_| !takes_several) {
            return Err(upload_failed(second, "several_files", "the input takes one file"));
        }
        let folders = self.folders().await;
        let mut found = Vec::with_capacity(files.len());
        for file in files {
            found.push(readable(file, &folders).await?);
        }
        Ok(found)
    }

    /// The policy's folders that are below a configured one.
    async fn folders(&self) -> Vec<PathBuf> {
        let mut configured = Vec::new();
        for folder in self.upload_folders {
            configured.extend(tokio::fs::canonicalize(folder).await);
        }
        let mut folders = Vec::new();
        for folder in &self.policy.upload_folders {
            let folder = tokio::fs::canonicalize(folder).await;
            folders.extend(
                folder.ok().filter(|folder| configured.iter().any(|above| folder.starts_with(above))),
            );
        }
        folders
    }
}

async fn readable(file: &str, folders: &[PathBuf]) -> Result<PathBuf, Failure> {
    // The folder is checked first: a caller must not learn which files exist outside of it.
    let outside = || upload_failed(file, "outside_upload_folders", "the file is not below a declared folder");
    let path = Path::new(file);
    if !path.is_absolute() {
        return Err(outside());
    }
    let Ok(path) = tokio::fs::canonicalize(path).await else {
        let is_below = folders.iter().any(|folder| path.starts_with(folder));
        return Err(if is_below {
            upload_failed(file, "file_missing", "there is no such file")
        } else {
            outside()
        });
    };
    if !folders.iter().any(|folder| path.starts_with(folder)) {
        return Err(outside());
    }
    let is_file = tokio::fs::metadata(&path).await.is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return Err(upload_failed(file, "not_a_file", "this is not a regular file"));
    }
    match tokio::fs::File::open(&path).await {
        Ok(_) => Ok(path),
        Err(_) => Err(upload_failed(file, "not_readable", "the file cannot be read")),
    }
}

/// `UPLOAD_FAILED`; the file as the action names it.
pub(super) fn upload_failed(file: &str, signal: &str, message: &str) -> Failure {
    Failure::new(code::UPLOAD_FAILED, message, json!({"file_ref": file, "upload_signal": signal}))
}
