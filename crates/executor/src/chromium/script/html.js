// The document as HTML, shadow trees included, without anything secret.

const VOID = new Set(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]);
const RAW = new Set(["style", "script", "xmp", "iframe", "noembed", "noframes", "plaintext", "noscript"]);
const HTML_LIMIT = 20_000_000;

const templateContent = getter(HTMLTemplateElement.prototype, "content");
const doctypeName = getter(DocumentType.prototype, "name");

const escaped = (text) => text.replace(/[&<>\u00a0]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[character] ?? "&nbsp;");
const escapedValue = (text) => escaped(text).replaceAll('"', "&quot;");

/** Tokens that pages keep in their head for their own requests. */
const isTokenMeta = (element, name) =>
  name === "content" && isHtml(element, "meta") && /csrf|xsrf|token|nonce/i.test(getAttribute(element, "name") ?? "");

/** Cut after 20 million characters, with a comment that says so. */
const html = (redaction = null) => {
  const mask = maskOf(redaction);
  const parts = [];
  let length = 0;
  const write = (text) => {
    length += text.length;
    parts.push(text);
  };
  const openTag = (element, secret) => {
    let tag = `<${localName(element)}`;
    for (const { name, value } of attributesOf(element)) {
      const shown = isTokenMeta(element, name) ? REDACTED : shownAttribute(element, name, value, secret);
      tag += ` ${name}="${escapedValue(shown)}"`;
    }
    write(`${tag}>`);
  };
  const children = (parent, depth, raw, secret) => {
    for (let child = firstChild(parent); child !== null; child = nextSibling(child)) {
      if (length > HTML_LIMIT) return;
      node(child, depth, raw, secret);
    }
  };
  const node = (at, depth, raw, secret) => {
    switch (nodeType(at)) {
      case ELEMENT:
        return element(at, depth, secret);
      case TEXT: {
        const text = data(at);
        return write(secret && text.trim() !== "" ? REDACTED : raw ? text : escaped(text));
      }
      case 8:
        return write(secret ? "" : `<!--${data(at)}-->`);
      case 10:
        return write(`<!DOCTYPE ${doctypeName(at)}>`);
      default:
        return undefined;
    }
  };
  // Secrecy is handed down, since what is in a template does not know what it is in.
  const element = (at, depth, inherited) => {
    const name = localName(at);
    if (depth > DEPTH_LIMIT) return write("<!-- deeper elements are left out -->");
    const secret = inherited || mask(at);
    openTag(at, secret);
    const isHtmlElement = namespaceUri(at) === HTML;
    if (isHtmlElement && VOID.has(name)) return undefined;
    const shadow = shadowRoot(at);
    if (shadow !== null) {
      write('<template shadowrootmode="open">');
      children(shadow, depth + 1, false, secret);
      write("</template>");
    }
    const content = isHtml(at, "template") ? templateContent(at) : at;
    children(content, depth + 1, isHtmlElement && RAW.has(name), secret);
    return write(`</${name}>`);
  };
  children(document, 0, false, false);
  if (length > HTML_LIMIT) write("<!-- the rest is left out -->");
  return parts.join("");
};
