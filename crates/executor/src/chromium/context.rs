//! Where our tabs are: anywhere in a browser of our own, or in one browser context of a browser that a person runs.

use std::sync::Arc;

use serde_json::Value;

/// The browser context of our tabs; `None` for a browser of our own, in which every tab is ours.
#[derive(Clone, Debug, Default)]
pub(super) struct Context(Option<Arc<str>>);

impl Context {
    pub(super) fn of(id: &str) -> Self {
        Self(Some(id.into()))
    }

    /// True if there are tabs beside ours, which are nothing to us.
    pub(super) fn is_part(&self) -> bool {
        self.0.is_some()
    }

    /// True if what is in the browser context of this id is ours by that.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.as_deref() == Some(id)
    }

    /// The parameters of a command of the browser that would mean the person's tabs, or all, otherwise.
    pub(super) fn params(&self, mut params: Value) -> Value {
        if let (Some(id), Some(params)) = (&self.0, params.as_object_mut()) {
            params.insert("browserContextId".to_owned(), (&**id).into());
        }
        params
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_means_our_context_where_there_are_others() {
        assert_eq!(Context::default().params(json!({ "url": "u" })), json!({ "url": "u" }));
        assert_eq!(
            Context::of("C").params(json!({ "url": "u" })),
            json!({ "url": "u", "browserContextId": "C" })
        );
        assert!(Context::of("C").has("C") && !Context::of("C").has("D"));
        assert!(!Context::default().has("") && !Context::default().is_part());
    }
}
