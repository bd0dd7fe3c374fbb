//! Files for a file input.

use std::path::PathBuf;
use std::time::Duration;

use capataz_cdp::Done;
use serde_json::json;

use super::ChromiumPage;
use super::call::Failure;
use crate::page::{Node, PageError};

impl ChromiumPage {
    pub(super) async fn upload(
        &self,
        node: &Node,
        files: &[PathBuf],
        limit: Duration,
    ) -> Result<(), PageError> {
        // The browser silently accepts names of files that do not exist.
        for file in files {
            let regular = tokio::fs::metadata(file).await.is_ok_and(|metadata| metadata.is_file());
            if !regular || !file.is_absolute() {
                return Err(PageError::Failed(format!("{} is not a file", file.display())));
            }
        }
        let facts = self.facts_of(node, &[]).await?;
        if facts.input_type.as_deref() != Some("file") {
            return Err(PageError::NotActionable { reason: "it takes no files" });
        }
        if !facts.enabled {
            return Err(PageError::NotActionable { reason: "disabled" });
        }
        // An input for a single file would silently keep the first.
        if files.len() > 1 && !facts.multiple {
            return Err(PageError::NotActionable { reason: "it takes one file" });
        }
        let object = self.object(node).await.map_err(Failure::or_detached)?;
        let (session, object) = object.ok_or(PageError::Detached)?;
        let params = json!({ "files": files, "objectId": object });
        let set = self.command::<Done>(&session, "DOM.setFileInputFiles", params, limit).await;
        super::tabs::send(&session, "Runtime.releaseObject", json!({ "objectId": object }));
        set.map_err(Failure::or_detached)?;
        let names: Vec<_> =
            files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect();
        match self.facts_of(node, &[]).await {
            // A page may take them at once and empty the input, for the next ones: the postcondition tells.
            Ok(facts) if facts.files.is_empty() || facts.files == names => Ok(()),
            Ok(_) => Err(PageError::Failed("the input does not list the files".to_owned())),
            // A page may send them at once and replace the input.
            Err(PageError::Detached) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
