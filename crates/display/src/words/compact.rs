//! Texts of results that are told in a line.

texts! {
    /// Lines in the place of boxes.
    Compact {
        succeeded: "succeeded" / "con éxito",
        failed: "failed" / "con error",
        timed_out: "timed out" / "tiempo agotado",
        cancelled: "cancelled" / "cancelada",
        not_started: "not started" / "sin empezar",
        unfinished: "unfinished" / "sin terminar",
        attempts: "{0} attempts" / "{0} intentos",
        similar: "similar: {0}" / "similares: {0}",
        steps: "correct steps: {0}" / "pasos correctos: {0}",
        error: "{0} ({1}): {2}" / "{0} ({1}): {2}",
    }
}
