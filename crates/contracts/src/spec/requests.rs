//! The rules of a request.

use super::parts::{self, Checker};
use crate::v1;
use crate::violation::Violations;

const ROLES: &[&str] = &["user", "assistant"];

pub fn check(request: &v1::SpecRequest, violations: &mut Violations) {
    parts::document(request.contract_version.as_ref(), violations, |at| {
        at.required_id("id", request.id.as_ref());
        at.required("timestamp", request.timestamp.as_ref());
        at.timestamp("timestamp", request.timestamp);
        at.required("text", request.text.as_ref());
        if request.text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            at.violation("text", "blank", "there is nothing but white space in the text");
        }
        at.required_id("spec", request.spec.as_ref());
        at.required("routing", request.routing.as_ref());
        if let Some(routing) = &request.routing {
            at.within("routing", |at| self::routing(routing, at));
        }
        at.required("context", request.context.as_ref());
        if let Some(context) = &request.context {
            at.within("context", |at| self::context(context, at));
        }
        if let Some(conversation) = &request.conversation {
            at.within("conversation", |at| self::conversation(conversation, at));
        }
        if let Some(user) = &request.user {
            at.within("user", |at| at.object("preferences", user.preferences.as_ref()));
        }
        if let Some(metadata) = &request.metadata {
            at.within("metadata", |at| {
                at.id("session_id", metadata.session_id.as_ref());
                at.object("custom", metadata.custom.as_ref());
            });
        }
    });
}

fn routing(routing: &v1::SpecRouting, at: &mut Checker<'_>) {
    at.required_confidence("confidence", routing.confidence);
    at.required("reason", routing.reason.as_ref());
    if let Some(alternatives) = &routing.alternatives {
        at.each("alternatives", &alternatives.items, |alternative, at| {
            at.required_id("spec", alternative.spec.as_ref());
            at.required_confidence("confidence", alternative.confidence);
        });
    }
}

fn context(context: &v1::SpecContext, at: &mut Checker<'_>) {
    at.required("detected_intent", context.detected_intent.as_ref());
    for (key, words) in
        [("keywords_matched", &context.keywords_matched), ("patterns_matched", &context.patterns_matched)]
    {
        at.count(key, words.as_ref().map_or(0, |words| words.items.len()));
    }
    if let Some(breakdown) = &context.confidence_breakdown {
        at.within("confidence_breakdown", |at| {
            at.confidence("keyword", breakdown.keyword);
            at.confidence("intent", breakdown.intent);
            at.confidence("context", breakdown.context);
        });
    }
}

fn conversation(conversation: &v1::SpecConversation, at: &mut Checker<'_>) {
    at.id("previous_spec", conversation.previous_spec.as_ref());
    if let Some(history) = &conversation.history {
        at.each("history", &history.items, |message, at| {
            at.required("role", message.role.as_ref());
            at.one_of("role", message.role.as_ref(), ROLES);
            at.required("text", message.text.as_ref());
            at.id("spec", message.spec.as_ref());
            at.timestamp("timestamp", message.timestamp);
        });
    }
}
