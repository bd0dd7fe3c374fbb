//! Texts of the live view's heading.

texts! {
    /// How far a run is, while it is watched.
    Live {
        counts: "{0} of {1} done, {2} failed" / "{0} de {1} terminadas, {2} con error",
        estimate: "about {0} left" / "quedan unos {0}",
    }
}
