//! The adapter to Chromium: a [`Page`](crate::page::Page) over DevTools.

pub mod script;
