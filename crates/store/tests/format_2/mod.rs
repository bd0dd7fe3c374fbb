//! Databases as the version before left them.

/// Takes back the migration to format 3, with which there are checksums, marks, quarantine, derived rows,
/// runs that rest, and the formats after it: forks and memory.
pub const BACK_TO_FORMAT_2: &str = "
DROP TABLE eras;
DROP TABLE quarantined;
DROP TABLE derived;
DROP TABLE memory_entries;
DROP TABLE memory_marks;
DROP TABLE memory_votes;
DROP TABLE removing;
ALTER TABLE shards DROP COLUMN removals;
DROP TABLE earlier_checksums;
DROP INDEX runs_unfinished;
ALTER TABLE runs DROP COLUMN rest_in;
ALTER TABLE runs DROP COLUMN rest_at;
CREATE INDEX runs_unfinished ON runs (run) WHERE finished_at IS NULL;
ALTER TABLE log DROP COLUMN inherited;
ALTER TABLE log DROP COLUMN checksum;
ALTER TABLE snapshots DROP COLUMN checksum;
DELETE FROM meta WHERE name <> 'min_reader';
UPDATE meta SET value = 2;
PRAGMA user_version = 2;
";
