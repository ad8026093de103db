// The theme shrinks a diagram to the width of the page, on a phone to letters of 4 pixels. With its
// own width the page's style lets it scroll.
const initialize = mermaid.initialize;
mermaid.initialize = (config) => initialize({...config, flowchart: {useMaxWidth: false}});
