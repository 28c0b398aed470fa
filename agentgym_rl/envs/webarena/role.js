name => {
    const people = [...document.querySelectorAll("td[data-label='Account'] span.gl-avatar-labeled-sublabel")]
    const row = people.findIndex(one => one.outerText === '@' + name)
    return document.querySelectorAll("td.col-max-role span")[row]?.outerText ?? ''
}
