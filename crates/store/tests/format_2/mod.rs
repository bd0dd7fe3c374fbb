//! Databases as the version before left them.

/// Takes back the migration to format 3, with which there are checksums, marks and quarantine.
pub const BACK_TO_FORMAT_2: &str = "
DROP TABLE eras;
DROP TABLE quarantined;
DROP TABLE earlier_checksums;
ALTER TABLE log DROP COLUMN checksum;
ALTER TABLE snapshots DROP COLUMN checksum;
DELETE FROM meta WHERE name <> 'min_reader';
UPDATE meta SET value = 2;
PRAGMA user_version = 2;
";
