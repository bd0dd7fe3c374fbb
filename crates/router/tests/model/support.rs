//! Builders for catalogues.

use capataz_router::{Catalogue, Decision, Intent, Keyword, Pattern, Query, Router, Spec};

pub fn spec(id: &str) -> Spec {
    Spec { id: id.to_owned(), title: id.to_owned(), ..Spec::default() }
}

/// Adds parts to a spec.
pub trait Build: Sized {
    fn keywords(self, texts: &[&str]) -> Self;
    fn weighted(self, text: &str, weight: f64) -> Self;
    fn intent(self, name: &str, examples: &[&str]) -> Self;
    fn pattern(self, name: &str, phrases: &[&str], expressions: &[&str]) -> Self;
    fn languages(self, languages: &[&str]) -> Self;
    fn the_default(self) -> Self;
}

impl Build for Spec {
    fn keywords(self, texts: &[&str]) -> Self {
        texts.iter().fold(self, |spec, text| spec.weighted(text, 1.0))
    }

    fn weighted(mut self, text: &str, weight: f64) -> Self {
        self.keywords.push(Keyword { text: text.to_owned(), weight });
        self
    }

    fn intent(mut self, name: &str, examples: &[&str]) -> Self {
        let examples = examples.iter().map(|text| (None, (*text).to_owned())).collect();
        self.intents.push(Intent {
            name: name.to_owned(),
            examples,
            pattern: Some(format!("{name}_pattern")),
        });
        self
    }

    fn pattern(mut self, name: &str, phrases: &[&str], expressions: &[&str]) -> Self {
        self.patterns.push(Pattern {
            name: name.to_owned(),
            phrases: phrases.iter().map(|phrase| (*phrase).to_owned()).collect(),
            expressions: expressions.iter().map(|text| regex::Regex::new(text).unwrap()).collect(),
            ..Pattern::default()
        });
        self
    }

    fn languages(mut self, languages: &[&str]) -> Self {
        self.languages = languages.iter().map(|language| (*language).to_owned()).collect();
        self
    }

    fn the_default(mut self) -> Self {
        self.default = true;
        self
    }
}

/// A catalogue of a companion for feelings, which is the default, and an assistant for plans.
pub fn two_assistants() -> Catalogue {
    Catalogue::new(vec![
        spec("companion")
            .the_default()
            .languages(&["es", "en"])
            .keywords(&["siento", "perdido", "triste", "soledad"])
            .pattern("emotional_low", &["no puedo más", "me siento perdido"], &[])
            .intent(
                "emotional_support",
                &[
                    "hoy me encuentro muy mal y no sé con quién hablar",
                    "tengo una pena enorme desde que se fue",
                    "lloro todas las noches sin saber por qué",
                    "nadie me entiende en casa",
                    "estoy agotado y sin ganas de nada",
                    "i feel lonely tonight",
                ],
            ),
        spec("planner")
            .languages(&["es"])
            .keywords(&["decidir", "opciones", "empezar", "plan"])
            .pattern("action_planning", &["siguiente paso"], &[r"como (empiezo|arranco)"])
            .intent(
                "decision_support",
                &[
                    "tengo dos ofertas de trabajo y dudo cuál aceptar",
                    "ayúdame a comparar las ventajas de cada alternativa",
                    "no sé si estudiar derecho o medicina",
                    "qué criterio uso para elegir proveedor",
                    "which laptop should i buy",
                    "conviene alquilar o comprar una casa",
                ],
            ),
    ])
}

/// Six shop desks with one intent each, enough of them for a calibration of their own.
pub fn shop() -> Vec<Spec> {
    let desk = |id: &str, examples: &[&str]| spec(id).intent(id, examples);
    vec![
        desk(
            "orders",
            &[
                "where is my parcel",
                "track the delivery of my order",
                "my package has not arrived",
                "when will the shipment come",
                "the courier lost my box",
                "has my order been sent",
            ],
        ),
        desk(
            "refunds",
            &[
                "i want my money back",
                "please refund the last purchase",
                "return this jacket for a refund",
                "how do i send an item back",
                "reimburse me for the broken lamp",
                "you charged me twice give it back",
            ],
        ),
        desk(
            "account",
            &[
                "i forgot my password",
                "change the email of my account",
                "delete my profile please",
                "cannot log in anymore",
                "update my phone number",
                "reset my login",
            ],
        ),
        desk(
            "opening_hours",
            &[
                "when do you open on sunday",
                "are you closed tomorrow",
                "opening hours of the store",
                "until what time is the shop open",
                "do you work on holidays",
                "what are your hours today",
            ],
        ),
        desk(
            "careers",
            &[
                "do you have any job for me",
                "i would like to work in your store",
                "where can i send my resume",
                "are you hiring students",
                "open positions in your company",
                "apply for an internship",
            ],
        ),
        desk(
            "gift_cards",
            &[
                "buy a gift card for a friend",
                "my voucher code does not work",
                "how much is left on the gift card",
                "redeem a coupon",
                "is there a voucher for birthdays",
                "the gift card expired",
            ],
        ),
    ]
}

pub fn route(catalogue: &Catalogue, text: &str) -> Decision {
    Router::train(catalogue).route(&Query { text, ..Query::default() })
}
