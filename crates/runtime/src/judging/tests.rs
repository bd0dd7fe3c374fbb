use capataz_engine::{Observation, Prompting};
use capataz_store::builders::{Shape, beginning};
use capataz_store::{Append, Mark, MemoryChange, MemoryEntry, MemoryRow, MemoryStore, Place, RunId, ShardId};

use super::*;

/// What is remembered twelve times in each mode: a text and its digest, how many tokens they have in o200k, when it was, and
/// how people and successes have voted on it, in quarters. The tokens were counted once, by themselves and outside of this
/// crate's code, with `encode_ordinary` of tiktoken-rs 0.12; all sums below are made of them by hand.
struct Remembered {
    text: &'static str,
    digest: &'static str,
    tokens: (u32, u32),
    at: i64,
    votes: i8,
}

const REMEMBERED: [Remembered; 12] = [
    // 0
    Remembered {
        text: "お誕生日おめでとう", digest: "birthday: ok", tokens: (8, 3), at: 2_002, votes: 6
    },
    // 1
    Remembered {
        text: r"fn total(prices: &[u64]) -> Option<u64> {
    let mut sum: u64 = 0;
    for price in prices {
        sum = sum.checked_add(*price)?;
    }
    Some(sum)
}
",
        digest: "edit: ok; path=total.rs; lines=7",
        tokens: (48, 12),
        at: 2_006,
        votes: 3,
    },
    // 2
    Remembered {
        text: "🚀 発射成功 ✅ deployed 🎉🎉",
        digest: "deploy: ok",
        tokens: (11, 3),
        at: 2_004,
        votes: 2,
    },
    // 3
    Remembered {
        text: "数据库连接失败：主机拒绝连接。请检查地址和端口，然后重试。如果问题仍然存在，请联系管理员并附上日志。",
        digest: "connect failed: SERVICE_UNAVAILABLE",
        tokens: (32, 6),
        at: 2_008,
        votes: -2,
    },
    // 4
    Remembered {
        text: r#"def read_prices(path):
    prices = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            name, _, price = line.partition(";")
            if not price.strip().isdigit():
                raise ValueError(f"{path}:{number}: {price!r} is no price")
            prices[name.strip()] = int(price)
    return prices
"#,
        digest: "edit: ok; path=read_prices.py; lines=9; language=Python",
        tokens: (86, 17),
        at: 2_011,
        votes: 16,
    },
    // 5
    Remembered {
        text: "안녕하세요, 파일이 저장되었습니다.",
        digest: "save: ok; path=보고서.txt",
        tokens: (8, 9),
        at: 2_003,
        votes: -1,
    },
    // 6
    Remembered {
        text: "👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈", digest: "react: ok", tokens: (25, 3), at: 2_012, votes: 3
    },
    // 7
    Remembered {
        text: r#"{
  "name": "prices",
  "steps": [
    { "id": "read", "tool": "read", "dependsOn": [] },
    { "id": "write", "tool": "write", "dependsOn": ["read"] }
  ]
}
"#,
        digest: "plan: ok; steps=2",
        tokens: (58, 7),
        at: 2_007,
        votes: -4,
    },
    // 8
    Remembered {
        text: r#"価格表を読み込みました。`read_prices("prices.csv")` は 120 行を返します。"#,
        digest: "read: ok; lines=120",
        tokens: (23, 7),
        at: 2_010,
        votes: 1,
    },
    // 9
    Remembered {
        text: "¿Dónde está la lista de precios? Mañana la traerá la señora Núñez.",
        digest: "ask: ok",
        tokens: (19, 3),
        at: 2_003,
        votes: 0,
    },
    // 10
    Remembered {
        text: r"SELECT name, price
FROM prices
WHERE price > 100
ORDER BY price DESC, name
LIMIT 10;
",
        digest: "query: ok; rows=10",
        tokens: (25, 7),
        at: 2_005,
        votes: 8,
    },
    // 11
    Remembered {
        text: "🧾🧾🧾 三张发票已付",
        digest: "pay: ok; invoices=3",
        tokens: (15, 7),
        at: 2_009,
        votes: 12,
    },
];

/// The types that each mode recalls (seed 004, `getRelevantMemory`).
fn types(mode: &str) -> &'static [&'static str] {
    match mode {
        "simple" => &["error", "solution"],
        "planner" => &["success", "pattern"],
        _ => &["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"],
    }
}

/// Places in the log of the entries of each mode; one of a type that the mode does not recall, and one of another session, come
/// after them and are newer than all.
const MODES: [(&str, u64); 3] = [("simple", 100), ("planner", 200), ("supervised", 300)];

fn blobs() -> Blobs {
    let store = MemoryStore::new();
    let mut writer = store.claim(ShardId(0), Mark(1)).unwrap();
    let mut rows = Vec::new();
    for (mode, first) in MODES {
        let entry = |session: &str, kind: &str, at: i64, content: &str, digest: &str| {
            MemoryChange::Entry(Box::new(MemoryEntry {
                session: session.to_owned(),
                mode: mode.to_owned(),
                kind: kind.to_owned(),
                at: Millis(at),
                content: content.to_owned(),
                digest: digest.to_owned(),
                tools: Vec::new(),
                files: Vec::new(),
                related_to: Vec::new(),
            }))
        };
        let kinds = types(mode);
        for (seq, remembered) in (first..).zip(&REMEMBERED) {
            let Remembered { text, digest, at, votes, .. } = remembered;
            let place = Place { seq, n: 0 };
            let kind = kinds[usize::try_from(seq - first).unwrap() % kinds.len()];
            rows.push(MemoryRow { place, change: entry("s", kind, *at, text, digest) });
            let change =
                MemoryChange::Vote { entry: capataz_store::entry_id(RunId::MIN, place), quarters: *votes };
            rows.push(MemoryRow { place: Place { seq, n: 1 }, change });
        }
        let stranger = if mode == "simple" { "success" } else { "error" };
        let session = if mode == "supervised" { "another" } else { "s" };
        for (seq, session, kind) in [(first + 12, session, stranger), (first + 13, "another", kinds[0])] {
            let change = entry(session, kind, 3_000, "a stranger", "");
            rows.push(MemoryRow { place: Place { seq, n: 0 }, change });
        }
    }
    let append = beginning(RunId::MIN).kind(6).named("").count(400).events("");
    let append = Append { memory: rows, ..append };
    writer.commit(&[append]).unwrap();
    Blobs { store: Arc::new(store), schemas: Arc::default() }
}

/// What is recalled of the ten that a prompt has at most, by their places above.
#[derive(Debug, PartialEq)]
struct Told {
    /// In whole or by their digests, in their order.
    entries: Vec<u64>,
    digests: Vec<u64>,
    skipped: Vec<u64>,
    tokens: u32,
    source_tokens: u32,
}

fn recalled(mode: v1::ExecutionMode, tokens: u32, since_ms: i64) -> Told {
    let wanted = Wanted { session: "s".to_owned(), mode, since_ms, entries: 10, tokens };
    let prompt = "{\"memory\":[]}".to_owned();
    let asked =
        Query::Prompt(Box::new(Prompting { prompt, results: Vec::new(), recall: wanted, tools: Vec::new() }));
    let Some(Computed::Prompt { prompt, recalled, .. }) = phases::compute(&asked, &blobs()).unwrap() else {
        panic!()
    };
    let Some(v1::payload::Data::Inline(prompt)) = prompt.data else { panic!() };
    let prompt = capataz_contracts::json::from_slice(&prompt).unwrap();
    let places = |ids: &[String]| -> Vec<u64> {
        ids.iter().map(|id| id.rsplit('-').nth(1).unwrap().parse::<u64>().unwrap() % 100).collect()
    };
    let told = Told {
        entries: places(&recalled.entries),
        digests: places(&recalled.digests),
        skipped: places(&recalled.skipped),
        tokens: recalled.tokens,
        source_tokens: recalled.source_tokens,
    };
    // The prompt has just these texts: nothing of any is cut.
    let texts = told.entries.iter().map(|place| {
        let remembered = &REMEMBERED[usize::try_from(*place).unwrap()];
        if told.digests.contains(place) { remembered.digest } else { remembered.text }
    });
    let memory = prompt["memory"].as_array().unwrap().iter();
    let in_prompt = memory.map(|entry| entry["content"].as_str().unwrap());
    assert_eq!(in_prompt.collect::<Vec<_>>(), texts.collect::<Vec<_>>());
    told
}

#[test]
fn texts_have_as_many_tokens_as_their_encoding_says() {
    let count = |text: &str| blobs().tokens(text);
    // The first three are published with the encoding; a word with a space before it is one token.
    let japanese = "\u{304A}\u{8A95}\u{751F}\u{65E5}\u{304A}\u{3081}\u{3067}\u{3068}\u{3046}";
    assert_eq!((count("antidisestablishmentarianism"), count("2 + 2 = 4"), count(japanese)), (6, 7, 8));
    assert_eq!((count(&" word".repeat(90)), count("")), (90, 0));
    for Remembered { text, digest, tokens, .. } in &REMEMBERED {
        assert_eq!((count(text), count(digest)), *tokens, "{text}");
    }
}

// S004-ME-01
#[test]
fn each_mode_recalls_what_the_seed_says_as_far_as_its_tokens_go() {
    use v1::ExecutionMode::{Planner, Simple, Supervised};
    // The newest first; 5 and 9 are as old as each other, so that 5 is the tenth by its id, and 9 and 0 are not asked for.
    // 25 in whole; 17 for 86, which do not fit into 75; 23, 15; 6 for 32, 7 for 58; 12 do not fit into the 7 that are left,
    // 7 for 25 do, and then there is no room for anything.
    let told = Told {
        entries: vec![6, 4, 8, 11, 3, 7, 10],
        digests: vec![4, 3, 7, 10],
        skipped: vec![1, 2, 5],
        tokens: 25 + 17 + 23 + 15 + 6 + 7 + 7,
        source_tokens: 25 + 86 + 23 + 15 + 32 + 58 + 25,
    };
    assert_eq!((told.tokens, told.source_tokens), (100, 264));
    assert_eq!(recalled(Simple, 100, 0), told);
    // The most relevant first, from 5.0 down to 0.75; 1 and 6 have both 1.75, and 6 is the newer one: their ids decide. 3 and 7
    // are the least relevant, and not asked for. 86, 15, 25, 8 and 48 in whole; 3 for 25, which do not fit into 18; 11; neither
    // 23 nor 7 fit into 4; 3 for 19; neither 8 nor 9 fit into 1.
    let told = Told {
        entries: vec![4, 11, 10, 0, 1, 6, 2, 9],
        digests: vec![6, 9],
        skipped: vec![8, 5],
        tokens: 86 + 15 + 25 + 8 + 48 + 3 + 11 + 3,
        source_tokens: 86 + 15 + 25 + 8 + 48 + 25 + 11 + 19,
    };
    assert_eq!((told.tokens, told.source_tokens), (199, 237));
    assert_eq!(recalled(Planner, 200, 0), told);
    // The newest first again, of all types: seven in whole, 287; 7 for 25, which do not fit into 13; 3 for 11, which do not fit
    // into 6; neither 8 nor 9 fit into 3.
    let told = Told {
        entries: vec![6, 4, 8, 11, 3, 7, 1, 10, 2],
        digests: vec![10, 2],
        skipped: vec![5],
        tokens: 25 + 86 + 23 + 15 + 32 + 58 + 48 + 7 + 3,
        source_tokens: 25 + 86 + 23 + 15 + 32 + 58 + 48 + 25 + 11,
    };
    assert_eq!((told.tokens, told.source_tokens), (297, 323));
    assert_eq!(recalled(Supervised, 300, 0), told);
    // Only what is newer than the bound.
    assert_eq!(recalled(Simple, 100, 2_010).entries, [6, 4]);
    assert_eq!(recalled(Simple, 100, 2_012).entries, [0; 0]);
}

#[test]
fn a_small_result_is_looked_at_on_the_spot_and_no_other_one_is() {
    let judges = Judges::new();
    let Blobs { store, .. } = blobs();
    let inline = |bytes: usize| v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(format!("\"{}\"", "a".repeat(bytes - 2)).into())),
    };
    let seen = |expected: Option<&str>, output: v1::Payload| {
        Query::Observe(Box::new(Observation {
            tool: "a.tool".to_owned(),
            parameters: "{}".to_owned(),
            expected: expected.map(str::to_owned),
            output: Some(output),
            error: None,
            most_tokens: 50,
        }))
    };
    encoding();
    let at_once = |query: Query| computed_at_once(&judges, &store, &query);
    // `{}` are two bytes of 2,048.
    let Some(Computed::Observed(observed)) = at_once(seen(None, inline(2_046))) else { panic!() };
    assert!(observed.as_expected);
    assert_eq!(at_once(seen(None, inline(2_047))), None);
    for schema in [r#"{"schema":{"pattern":"(a{9}){9}"}}"#, r#"{"\u0073chema":{"pattern":"(a{9}){9}"}}"#] {
        assert_eq!(at_once(seen(Some(schema), inline(10))), None);
    }
    let blob = v1::BlobRef { blake3: "0".repeat(64), size: 3, answer: None };
    let blob = v1::Payload { data: Some(v1::payload::Data::Blob(blob)), ..inline(10) };
    assert_eq!(at_once(seen(None, blob)), None);
}
