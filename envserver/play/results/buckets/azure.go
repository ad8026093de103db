package buckets

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// locateDomain is the domain of the cloud: another one than the public cloud has a variable.
func locateDomain() string {
	return cmp.Or(firstVariable("AZURE_STORAGE_DOMAIN"), "blob.core.windows.net")
}

func openAzure(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q, err := readParameters(u, "storage_account", "domain", "protocol", "localemu", "cdn")
	if err != nil {
		return nil, err
	}
	if text := firstVariable("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		client, err := container.NewClientFromConnectionString(text, u.Host, nil)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_CONNECTION_STRING is no connection string of an account: " +
				"copy it again")
		}
		return azureblob.OpenBucket(ctx, client, nil)
	}
	service, err := locateAccount(q)
	if err != nil {
		return nil, err
	}
	address, err := azureblob.NewServiceURL(&service)
	if err != nil {
		return nil, err
	}
	client, err := newAzureClient(string(address), u.Host, service)
	if err != nil {
		return nil, err
	}
	return azureblob.OpenBucket(ctx, client, nil)
}

// locateAccount is the address of the variables, changed by the URL's parameters. A token is part
// of an address, so that it is only sent to the address in the variables.
func locateAccount(q url.Values) (azureblob.ServiceURLOptions, error) {
	ours := azureblob.ServiceURLOptions{AccountName: firstVariable("AZURE_STORAGE_ACCOUNT"),
		StorageDomain: locateDomain(), Protocol: "https"}
	local, localErr := readBool(q, "localemu")
	cdn, cdnErr := readBool(q, "cdn")
	if err := errors.Join(localErr, cdnErr); err != nil {
		return ours, err
	}
	theirs := azureblob.ServiceURLOptions{AccountName: cmp.Or(q.Get("storage_account"), ours.AccountName),
		StorageDomain: cmp.Or(q.Get("domain"), ours.StorageDomain), Protocol: cmp.Or(q.Get("protocol"), ours.Protocol),
		IsLocalEmulator: local, IsCDN: cdn}
	if theirs.AccountName == "" {
		return ours, errors.New("could not find default credentials: AZURE_STORAGE_ACCOUNT is not set")
	}
	token := strings.TrimPrefix(firstVariable("AZURE_STORAGE_SAS_TOKEN"), "?")
	if token != "" && theirs != ours {
		return ours, errors.New("AZURE_STORAGE_SAS_TOKEN is only sent to https and the account of " +
			"AZURE_STORAGE_ACCOUNT in AZURE_STORAGE_DOMAIN: omit the parameters of the URL that change them")
	}
	theirs.SASToken = token
	return theirs, nil
}

// newAzureClient uses the key or the token of the variables or, in Azure, the identity of the pod
// or machine.
func newAzureClient(address, name string, service azureblob.ServiceURLOptions) (*container.Client, error) {
	at, err := url.JoinPath(address, name)
	if err != nil {
		return nil, err
	}
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: newHTTPClient(at)}}
	if key := firstVariable("AZURE_STORAGE_KEY"); key != "" {
		credential, err := azblob.NewSharedKeyCredential(service.AccountName, key)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_KEY is no key of an account: copy it again")
		}
		return container.NewClientWithSharedKeyCredential(at, credential, options)
	}
	if service.SASToken != "" {
		return container.NewClientWithNoCredential(at, options)
	}
	if !belongsToAzure(at) {
		return nil, noIdentity(at)
	}
	identity, err := findAzureIdentity()
	if err != nil {
		return nil, err
	}
	return container.NewClient(at, identity, options)
}

// hostOfAzure is the pattern of the accounts in Azure's clouds.
var hostOfAzure = regexp.MustCompile(`^[a-z0-9]{3,24}(-secondary)?\.(z\d{1,2}\.blob\.storage\.azure\.net|` +
	`blob\.core\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn))$`)

// belongsToAzure reports whether an address belongs to an account in Azure.
func belongsToAzure(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && hostOfAzure.MatchString(u.Host)
}

// findAzureIdentity leaves out the command lines of Azure, which the default credential runs.
func findAzureIdentity() (azcore.TokenCredential, error) {
	var chain []azcore.TokenCredential
	if pod, err := azidentity.NewWorkloadIdentityCredential(nil); err == nil {
		chain = append(chain, pod)
	}
	var options azidentity.ManagedIdentityCredentialOptions
	if id := firstVariable("AZURE_CLIENT_ID"); id != "" {
		options.ID = azidentity.ClientID(id)
	}
	machine, err := azidentity.NewManagedIdentityCredential(&options)
	if err != nil {
		return nil, err
	}
	return azidentity.NewChainedTokenCredential(append(chain, machine), nil)
}
