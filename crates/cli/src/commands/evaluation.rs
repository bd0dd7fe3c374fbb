//! The report of `router eval` as a text.

use capataz_display::words::{fill, words};
use capataz_router::eval::Evaluation;

/// The least columns of a name and of its value.
const NAME: usize = 34;
const VALUE: usize = 14;

/// A line for each figure, and the specs that are confused most.
pub fn report(evaluation: &Evaluation) -> String {
    let figures = figures(evaluation);
    // Where a language needs more columns for its longest name, all lines have them.
    let longest = figures.iter().map(|(name, _)| name.chars().count() + 1).max().unwrap_or_default();
    let width = longest.max(NAME);
    let mut lines: Vec<String> =
        figures.into_iter().map(|(name, value)| format!("{name:<width$}{value:>VALUE$}")).collect();
    if !evaluation.worst_confusions.is_empty() {
        lines.push(words().measures.worst.to_owned());
        let worst = evaluation.worst_confusions.iter();
        lines.extend(worst.map(|pair| format!("  {:>4}  {} -> {}", pair.rows, pair.label, pair.spec)));
    }
    lines.join("\n")
}

/// The name and the value of each figure, in the order of the report.
fn figures(evaluation: &Evaluation) -> Vec<(String, String)> {
    let texts = &words().measures;
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1000.0);
    let mut figures = vec![
        (texts.specs.to_owned(), evaluation.specs.to_string()),
        (texts.rows.to_owned(), evaluation.rows.to_string()),
        (texts.out_of_scope.to_owned(), evaluation.rows_out_of_scope.to_string()),
        (texts.accuracy.to_owned(), percent(evaluation.accuracy)),
        (texts.macro_f1.to_owned(), percent(evaluation.macro_f1)),
    ];
    for (rule, found) in [(texts.larson, &evaluation.larson), (texts.balanced, &evaluation.balanced)] {
        let Some(found) = found else { continue };
        figures.push((fill(texts.threshold, &[rule]), format!("{:.3}", found.threshold)));
        figures.push((fill(texts.rule_accuracy, &[rule]), percent(found.accuracy)));
        figures.push((fill(texts.recall, &[rule]), percent(found.out_of_scope_recall)));
    }
    if let Some(auroc) = evaluation.auroc {
        figures.push((texts.auroc.to_owned(), format!("{auroc:.3}")));
    }
    let mib = evaluation.memory_bytes as f64 / f64::from(1 << 20);
    figures.extend([
        (texts.calibration_error.to_owned(), format!("{:.3}", evaluation.calibration_error)),
        (texts.mean_confidence.to_owned(), format!("{:.3}", evaluation.mean_confidence)),
        (texts.latency_p50.to_owned(), micros(evaluation.latency_p50_ns)),
        (texts.latency_p99.to_owned(), micros(evaluation.latency_p99_ns)),
        (texts.training.to_owned(), format!("{:.0} ms", evaluation.training_ms)),
        (texts.memory.to_owned(), format!("{mib:.1} MiB")),
    ]);
    figures
}

#[cfg(test)]
mod tests {
    use capataz_display::words::Language;
    use capataz_router::eval::{Confusion, Thresholded};

    use super::*;

    fn measured() -> Evaluation {
        Evaluation {
            specs: 2,
            rows: 12,
            rows_out_of_scope: 4,
            accuracy: 0.875,
            macro_f1: 0.8667,
            larson: Some(Thresholded { threshold: 0.25, accuracy: 1.0, out_of_scope_recall: 0.75 }),
            balanced: Some(Thresholded { threshold: 0.5, accuracy: 0.5, out_of_scope_recall: 1.0 }),
            auroc: Some(0.96875),
            calibration_error: 0.094,
            mean_confidence: 0.666,
            worst_confusions: vec![Confusion { label: "kiro".to_owned(), spec: "wave".to_owned(), rows: 1 }],
            latency_p50_ns: 4_600,
            latency_p99_ns: 12_340,
            training_ms: 103.4,
            memory_bytes: 3 * 1024 * 1024 / 2,
        }
    }

    #[test]
    fn the_whole_report_is_told_in_both_languages() {
        assert_eq!(
            Language::English.within(|| report(&measured())),
            "\
specs                                          2
rows                                          12
  of them out of scope                         4
accuracy in scope                         87.5 %
macro F1                                  86.7 %
Larson: threshold                          0.250
Larson: accuracy in scope                100.0 %
Larson: out-of-scope recall               75.0 %
balanced: threshold                        0.500
balanced: accuracy in scope               50.0 %
balanced: out-of-scope recall            100.0 %
AUROC                                      0.969
calibration error                          0.094
mean confidence                            0.666
latency p50                               4.6 µs
latency p99                              12.3 µs
training                                  103 ms
memory of the model                      1.5 MiB
worst confusions
     1  kiro -> wave"
        );
        assert_eq!(
            Language::Spanish.within(|| report(&measured())),
            "\
specs                                              2
filas                                             12
  de ellas fuera de ámbito                         4
aciertos en el ámbito                         87.5 %
F1 macro                                      86.7 %
Larson: umbral                                 0.250
Larson: aciertos en el ámbito                100.0 %
Larson: rechazos fuera de ámbito              75.0 %
equilibrado: umbral                            0.500
equilibrado: aciertos en el ámbito            50.0 %
equilibrado: rechazos fuera de ámbito        100.0 %
AUROC                                          0.969
error de calibración                           0.094
confianza media                                0.666
latencia p50                                  4.6 µs
latencia p99                                 12.3 µs
entrenamiento                                 103 ms
memoria del modelo                           1.5 MiB
peores confusiones
     1  kiro -> wave"
        );
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let none = Evaluation {
            larson: None,
            balanced: None,
            auroc: None,
            worst_confusions: Vec::new(),
            ..measured()
        };
        let told = Language::English.within(|| report(&none));
        assert_eq!(told.lines().count(), 11, "{told}");
        assert!(!told.contains("threshold") && !told.contains("AUROC") && !told.contains("worst"), "{told}");
    }
}
