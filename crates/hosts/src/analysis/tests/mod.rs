mod agents;
mod random;
mod repositories;
