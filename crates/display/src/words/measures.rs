//! Texts of `router eval`.

texts! {
    /// The report of `router eval`, and why there is none.
    Measures {
        specs: "specs" / "specs",
        rows: "rows" / "filas",
        out_of_scope: "  of them out of scope" / "  de ellas fuera de ámbito",
        accuracy: "accuracy in scope" / "aciertos en el ámbito",
        macro_f1: "macro F1" / "F1 macro",
        larson: "Larson" / "Larson",
        balanced: "balanced" / "equilibrado",
        threshold: "{0}: threshold" / "{0}: umbral",
        rule_accuracy: "{0}: accuracy in scope" / "{0}: aciertos en el ámbito",
        recall: "{0}: out-of-scope recall" / "{0}: rechazos fuera de ámbito",
        auroc: "AUROC" / "AUROC",
        calibration_error: "calibration error" / "error de calibración",
        mean_confidence: "mean confidence" / "confianza media",
        latency_p50: "latency p50" / "latencia p50",
        latency_p99: "latency p99" / "latencia p99",
        training: "training" / "entrenamiento",
        memory: "memory of the model" / "memoria del modelo",
        worst: "worst confusions" / "peores confusiones",
        needs_rows: "--specs needs --test or --valid: rows to measure on"
            / "--specs necesita --test o --valid: filas con las que medir",
        needs_valid: "--valid is needed: thresholds are chosen on its rows; or --folds"
            / "hace falta --valid: con sus filas se eligen los umbrales; o --folds",
        unknown_labels: "{0} has labels that are no spec of {1}: {2}; there are {3}, and oos for texts of no spec"
            / "{0} tiene etiquetas que no son specs de {1}: {2}; hay {3}, y oos para textos de ningún spec",
        unknown_label_near: "{0} (did you mean {1}?)" / "{0} (¿quiso decir {1}?)",
    }
}
