//! The port's suite, over both adapters.

mod memory {
    capataz_store::conformance_suite!(capataz_store::conformance::MemorySubject);
}

mod sqlite {
    capataz_store::conformance_suite!(capataz_store::conformance::SqliteSubject);
}
