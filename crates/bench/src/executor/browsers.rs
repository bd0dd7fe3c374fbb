//! The browsers that are measured, each on the same page.

use std::path::Path;
use std::time::Duration;

use capataz_contracts::{json as contract, v1};
use capataz_executor::chromium::{self, ChromiumBrowser, ChromiumPage, Launch, OpenOptions, Source};
use capataz_executor::dsl::{self, Policy};
use capataz_executor::page::{Act, Element, Locator, Page, PageRedaction, Query, WaitUntil};
use capataz_testsite::Site;
use serde_json::json;
use tempfile::TempDir;

use super::ExecutorOptions;
use super::raw::RawPage;
use crate::Outcome;

/// The size of the viewport in CSS pixels.
pub(super) const WIDTH: u32 = 1280;
pub(super) const HEIGHT: u32 = 720;

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

const PAGE: &str = "/big";

/// What the third browser is told to keep secret: an input that is in view.
const SECRET: &str = "#q";

#[derive(Debug)]
pub(super) struct Browsers {
    pub(super) version: String,
    pub(super) policy: Policy,
    pub(super) url: String,
    pub(super) page: ChromiumPage,
    /// The same page, with something to be masked.
    pub(super) masked: ChromiumPage,
    pub(super) raw: RawPage,
    ours: [ChromiumBrowser; 2],
    _folder: TempDir,
}

impl Browsers {
    pub(super) async fn open(options: &ExecutorOptions, site: &Site) -> Outcome<Self> {
        let named = options.chromium.clone().or_else(|| std::env::var_os("CAPATAZ_CHROMIUM").map(Into::into));
        let found = chromium::find(named.as_deref(), std::env::var_os("PATH").as_deref()).await?;
        let folder = tempfile::Builder::new().prefix("executor-").tempdir_in(&options.dir)?;
        let root = folder.path().canonicalize()?;
        let policy = json!({ "allowlist": [site.host()] });
        let mut policy: v1::ScriptPolicy =
            contract::parse("capataz.v1.ScriptPolicy", &policy).map_err(|error| format!("{error:?}"))?;
        dsl::materialise_policy(&mut policy);
        let policy = Policy::new(&policy).map_err(|violations| format!("{violations:?}"))?;
        let open = |name: &str, selectors: &[&str]| {
            let redaction =
                PageRedaction { selectors: selectors.iter().map(|&selector| selector.into()).collect() };
            opened(&found.program, root.join(name), &policy, redaction)
        };
        let url = site.url(PAGE);
        let (browser, mut page) = open("ours", &[]).await?;
        let (masking, mut masked) = open("masked", &[SECRET]).await?;
        let raw = RawPage::open(&found.program, &root.join("raw")).await?;
        navigate(&mut page, &url).await?;
        navigate(&mut masked, &url).await?;
        raw.navigate(&url).await?;
        let version = browser.info().version.clone();
        let ours = [browser, masking];
        Ok(Self { version, policy, url, page, masked, raw, ours, _folder: folder })
    }

    /// The one element of this CSS selector, in the page without masks.
    pub(super) async fn element(&mut self, selector: &str) -> Outcome<Element> {
        let locators = vec![Locator::Css { value: selector.to_owned() }];
        let look = self.page.look(&Query { locators, ..Query::default() }).await?;
        Ok(look.element.ok_or_else(|| format!("{selector} was found {} times", look.count))?)
    }

    pub(super) async fn close(self) {
        self.raw.close().await;
        for browser in self.ours {
            browser.close(LIMIT).await;
        }
    }
}

pub(super) async fn navigate(page: &mut ChromiumPage, url: &str) -> Outcome<()> {
    Ok(page.act(Act::Navigate { url: url.to_owned() }, WaitUntil::Load, LIMIT).await?)
}

async fn opened(
    program: &Path,
    folder: std::path::PathBuf,
    policy: &Policy,
    redaction: PageRedaction,
) -> Outcome<(ChromiumBrowser, ChromiumPage)> {
    let download_folder = folder.join("downloads");
    std::fs::create_dir_all(&download_folder)?;
    let options = OpenOptions {
        source: Source::Launch(Launch {
            program: program.to_owned(),
            profile_folder: folder.join("profile"),
            shim: None,
            environment: chromium::passed_environment(true, |name| std::env::var_os(name)),
            headed: false,
        }),
        download_folder,
        width: WIDTH,
        height: HEIGHT,
        locale: "en-US".to_owned(),
        timezone: "UTC".to_owned(),
        allowlist: policy.allowlist().clone(),
        redaction,
        testid_attribute: policy.testid_attribute().to_owned(),
        new_tabs: v1::NewTabs::Follow,
        dialogs: v1::DialogAnswer::Dismiss,
        page_log: false,
        storage_state: None,
    };
    Ok(ChromiumBrowser::open(options).await?)
}
