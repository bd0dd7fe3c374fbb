//! Texts of the live view's heading, and of the questions that it has answered.

texts! {
    /// How far a run is, while it is watched.
    Live {
        counts: "{0} of {1} done, {2} failed" / "{0} de {1} terminadas, {2} con error",
        counts_of_steps: "{0} of {1} done, {2} failed" / "{0} de {1} terminados, {2} con error",
        counts_so_far: "{0} done, {1} failed" / "terminadas: {0}, con error: {1}",
        estimate: "about {0} left" / "quedan unos {0}",
    }

    /// The questions of a plan that are answered by a key.
    Choosing {
        offer: "? {0} ({1})" / "? {0} ({1})",
        key: "{0}: {1}" / "{0}: {1}",
        asking: "answering {0} for {1} …" / "respondiendo {0} para {1} …",
        answered: "{0} was answered with {1}." / "{0} se respondió con {1}.",
        refused: "{0} was not answered with {1}: {2}" / "{0} no se respondió con {1}: {2}",
    }
}
