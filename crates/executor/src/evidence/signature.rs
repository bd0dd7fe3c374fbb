//! State signatures (seed 002, section 2; CONTRACTS §3).

use capataz_contracts::{json, v1};

use super::{JSON, Piece};
use crate::page::{Picture, Sight, Skeleton};
use crate::redact::Redactor;

const SCHEMA_VERSION: &str = "v1";

/// What a page looked like at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) signature: v1::StateSignature,
    pub(crate) picture: Option<Picture>,
    /// Something in the signature was redacted.
    redacted: bool,
}

impl Seen {
    pub(crate) fn new(skeleton: Skeleton, redactor: &Redactor) -> Self {
        let Skeleton { mut url, mut title, mut dom, mut anchors, mut inputs } = skeleton;
        let mut redacted = false;
        for text in [&mut url, &mut title, &mut dom, &mut anchors, &mut inputs] {
            redacted |= redactor.string(text);
        }
        let signature = v1::StateSignature {
            schema_version: SCHEMA_VERSION.to_owned(),
            url,
            title,
            dom_hash: hash(dom.as_bytes()),
            anchors_hash: hash(anchors.as_bytes()),
            inputs_hash: hash(inputs.as_bytes()),
            screenshot_hash: String::new(),
        };
        Self { signature, picture: None, redacted }
    }

    pub(crate) fn of(sight: Sight, redactor: &Redactor) -> Self {
        let mut seen = Self::new(sight.skeleton, redactor);
        if let Some(picture) = sight.picture {
            seen.pictured(picture);
        }
        seen
    }

    /// Adds the picture of the same moment.
    pub(crate) fn pictured(&mut self, picture: Picture) {
        self.signature.screenshot_hash = hash(&picture.png);
        self.picture = Some(picture);
    }

    /// The signature as a piece of evidence of its own.
    pub(crate) fn piece(&self) -> Piece {
        piece(&self.signature, self.redacted)
    }
}

/// The signature of a page that was never seen.
pub(crate) fn empty_signature() -> v1::StateSignature {
    Seen::new(Skeleton::default(), &Redactor::new(&[])).signature
}

pub(crate) fn piece(signature: &v1::StateSignature, redacted: bool) -> Piece {
    let text = json::print("capataz.v1.StateSignature", signature).to_string();
    Piece {
        kind: capataz_policy::executor::evidence::STATE_SIGNATURE,
        media_type: JSON,
        content: text.into(),
        redacted,
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(url: &str, inputs: &str) -> Skeleton {
        Skeleton {
            url: url.to_owned(),
            title: "Orders".to_owned(),
            dom: "button \"Send\"".to_owned(),
            anchors: "a \"Home\" /".to_owned(),
            inputs: inputs.to_owned(),
        }
    }

    // S002-EV-05
    #[test]
    fn the_same_page_in_the_same_state_has_the_same_signature() {
        let redactor = Redactor::new(&[]);
        let sign = |url: &str, inputs: &str| Seen::new(skeleton(url, inputs), &redactor).signature;
        assert_eq!(sign("https://h/", "a=1"), sign("https://h/", "a=1"));
        assert_ne!(sign("https://h/", "a=1").inputs_hash, sign("https://h/", "a=2").inputs_hash);
        assert_eq!(sign("https://h/", "a=1").dom_hash.len(), 64);
    }

    #[test]
    fn secrets_are_masked_before_they_are_hashed() {
        let mut redactor = Redactor::new(&[]);
        redactor.learn("hunter2");
        redactor.learn("swordfish");
        let one = Seen::new(skeleton("https://h/?token=1", "note=hunter2"), &redactor);
        let other = Seen::new(skeleton("https://h/?token=2", "note=swordfish"), &redactor);
        assert_eq!(one.signature, other.signature);
        assert_eq!(one.signature.url, "https://h/?token=«secret»");
        assert!(one.piece().redacted);
    }

    // S002-EV-04
    #[test]
    fn a_picture_adds_its_hash() {
        let mut seen = Seen::new(Skeleton::default(), &Redactor::new(&[]));
        assert_eq!(seen.signature.screenshot_hash, "");
        seen.pictured(Picture { png: "png".into(), masked: false });
        assert_eq!(seen.signature.screenshot_hash, blake3::hash(b"png").to_hex().as_str());
    }
}
