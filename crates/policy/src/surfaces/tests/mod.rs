mod checks;
mod paths;
mod summaries;
